"""The catalogue of official checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

#: Licence of the weights (not of this code): link to it wherever a user gets them.
WEIGHTS_LICENSE_URL = "https://github.com/facebookresearch/sapiens2/blob/main/LICENSE.md"


@dataclass(frozen=True)
class OfficialCheckpoint:
    """One published checkpoint.

    Attributes:
        repo_id: its repository on the Hugging Face hub, which is also its name in a graph.
        filename: the authors' file there.
        task: a key of :data:`sapiens2_core.tasks.TASKS`.
        size: a key of :data:`sapiens2_core.config.SIZES`.
    """

    repo_id: str
    filename: str
    task: str
    size: str


def _official(task: str, size: str) -> OfficialCheckpoint:
    return OfficialCheckpoint(
        f"facebook/sapiens2-{task}-{size}", f"sapiens2_{size.replace('-', '_')}_{task}.safetensors", task, size
    )


#: Every checkpoint that the authors publish, by repository. There is no albedo among them: people hold it as a file.
CATALOGUE: dict[str, OfficialCheckpoint] = {
    official.repo_id: official
    for official in (
        *(
            _official(task, size)
            for task in ("pose", "seg", "normal", "pointmap")
            for size in ("0.4b", "0.8b", "1b", "5b")
        ),
        _official("matting", "1b"),
        *(_official("pretrain", size) for size in ("0.1b", "0.4b", "0.8b", "1b", "1b-4k", "5b")),
    )
}
