"""The catalogue of official checkpoints, and getting checkpoints from the Hugging Face hub."""

from __future__ import annotations

import glob
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from .checkpoint_files import INDEX_SUFFIX, PICKLE_SUFFIXES, CheckpointError, shard_names

logger = logging.getLogger("sapiens2")

#: Licence of the weights (not of this code): link to it wherever a user gets them.
WEIGHTS_LICENSE_URL = "https://github.com/facebookresearch/sapiens2/blob/main/LICENSE.md"

#: What is taken along with weights, and all that is ever downloaded beside them and their index.
CONFIG_NAME, PREPROCESSOR_NAME = "config.json", "preprocessor_config.json"
_SAFETENSORS = ".safetensors"

#: "owner/name", as the hub allows it.
_REPO_ID = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]*/[A-Za-z0-9]([\w.-]*\w)?", re.ASCII)


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


class HubOptions(TypedDict, total=False):
    """How a repository is read; all are huggingface_hub's.

    Attributes:
        revision: branch, tag or commit; "main" by default.
        cache_dir: where downloads are kept; huggingface_hub's cache by default (setting HF_HOME).
        local_files_only: use what is in the cache, without network (so does setting HF_HUB_OFFLINE).
        token: for private repositories; True, and by default, the one that ``hf auth login`` stored; False for none.
        endpoint: address of the hub, for a mirror (setting HF_ENDPOINT).
    """

    revision: str | None
    cache_dir: str | Path | None
    local_files_only: bool
    token: str | bool | None
    endpoint: str | None


def repo_id_of(path_or_repo: str | Path) -> str | None:
    """The repository that ``path_or_repo`` names; None for what exists on this machine or can't be one's name."""
    name = path_or_repo.as_posix() if isinstance(path_or_repo, Path) else path_or_repo
    # What ends like a file is a path with a typo, not a repository.
    if Path(path_or_repo).exists() or name.lower().endswith((_SAFETENSORS, ".json", *PICKLE_SUFFIXES)):
        return None
    return name if _REPO_ID.fullmatch(name) else None


def resolve(path_or_repo: str | Path, **options) -> Path:
    """Where a checkpoint lies on this machine, once it is downloaded if ``path_or_repo`` names a repository.

    Args:
        path_or_repo: a file, a folder, or a repository's "owner/name".
        options: :class:`HubOptions`; without effect on files and folders.

    Returns:
        The file or folder, which need not exist; for a repository its folder in the cache.

    Raises:
        CheckpointError: the repository can't be had; the message says what to do instead.
    """
    repo_id = repo_id_of(path_or_repo)
    return Path(path_or_repo) if repo_id is None else _Repository(repo_id, **options).download()


def find_json(path_or_repo: str | Path, name: str, **options) -> Path | None:
    """A JSON file beside a checkpoint's weights, which are not downloaded; None where there is none.

    Arguments and errors as for :func:`resolve`.
    """
    repo_id = repo_id_of(path_or_repo)
    if repo_id is not None:
        return _Repository(repo_id, **options).find(name)
    file = Path(path_or_repo) / name
    return file if file.is_file() else None


def refusal(error: Exception, repo_id: str, revision: str | None, log_in: str) -> str | None:
    """What it means that the hub answered with an error; None for errors that are not its answer.

    Args:
        error: what huggingface_hub raised.
        repo_id, revision: what was asked for.
        log_in: how to give a token, as part of a sentence.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        page = f"https://huggingface.co/{repo_id}"
        return f"{repo_id} is open only to those who accept its terms: do so at {page}, then {log_in}."
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"There is no file or folder {repo_id} on this machine, and no such repository on the hub, or it "
            f"is private: then {log_in}."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no revision {revision}."
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        return f"The hub does not open {repo_id} with this token, or asks for one: {log_in}."
    return None


class _Repository:
    """One repository on the hub, at one revision."""

    def __init__(
        self,
        repo_id: str,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        endpoint: str | None = None,
    ) -> None:
        self.repo_id = repo_id
        self._offline = "local_files_only is set" if local_files_only else None  # why there is no network
        self._options = {"revision": revision, "cache_dir": cache_dir, "token": token, "endpoint": endpoint}

    @property
    def _by_hand(self) -> str:
        """What to do when the download can't be had."""
        official = CATALOGUE.get(self.repo_id)
        if official is None:
            return f"Download its files from https://huggingface.co/{self.repo_id} and give the path of their folder."
        return (
            f"Download {official.filename} from https://huggingface.co/{self.repo_id} (licence of the weights: "
            f"{WEIGHTS_LICENSE_URL}), put it where you like, and give its path."
        )

    def download(self) -> Path:
        """The folder in the cache with what a checkpoint is made of."""
        names = self._names()
        if names is None:
            return self._cached_checkpoint()
        weights = self._weights(names)
        if len(weights) != 1:
            what = f"several ({', '.join(weights)})" if weights else "none"
            raise CheckpointError(
                f"{self.repo_id} should hold one checkpoint as {_SAFETENSORS}, but it holds {what}. "
                "Download the one that you want, and give its path."
            )
        folder = self._fetch([name for name in (CONFIG_NAME, PREPROCESSOR_NAME) if name in names] + weights)
        if weights[0].endswith(INDEX_SUFFIX):
            folder = self._fetch(shard_names(folder / weights[0]))
        return folder

    def find(self, name: str) -> Path | None:
        """A file in the cache, downloaded if need be; None where the repository lacks it."""
        names = self._names()
        if names is not None and name not in names:
            return None
        folder = self._cached_folder() if names is None else self._fetch([name])
        return folder / name if (folder / name).is_file() else None

    def _weights(self, names: Collection[str]) -> list[str]:
        """Which of a repository's files to download: an index of shards, or one file of weights.

        transformers' files come first, so that one cache serves both; folders are read in the same order.
        """
        top = sorted(name for name in names if "/" not in name)
        if indices := [name for name in top if name.endswith(INDEX_SUFFIX)]:
            return indices[:1]
        files = [name for name in top if name.endswith(_SAFETENSORS)]
        official = CATALOGUE.get(self.repo_id)
        preferred = ["model.safetensors", *([official.filename] if official else [])]
        return next(([name] for name in preferred if name in files), files)

    def _names(self) -> set[str] | None:
        """Names of the repository's files, None without network."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HTTPError

        if self._offline:
            return None
        try:
            api = HfApi(endpoint=self._options["endpoint"], token=self._options["token"])
            info = api.model_info(self.repo_id, revision=self._options["revision"], timeout=10)
        except (HTTPError, OSError) as error:
            if refusal := self._refusal(error):
                raise CheckpointError(refusal) from error
            # No network, switched off by HF_HUB_OFFLINE, or the hub is down.
            self._offline = f"the hub can't be reached ({_first_line(error)})"
            return None
        return {file.rfilename for file in info.siblings}

    def _refusal(self, error: Exception) -> str | None:
        """What it means that the hub answered with an error; None for errors that are not its answer."""
        log_in = "log in with `hf auth login`, or give token=… (False for none)"
        return refusal(error, self.repo_id, self._options["revision"], log_in)

    def _fetch(self, names: list[str]) -> Path:
        """Downloads what isn't in the cache; huggingface_hub gives files their names only once they are whole."""
        from huggingface_hub import snapshot_download, try_to_load_from_cache
        from huggingface_hub.errors import HTTPError

        revision, cache_dir = self._options["revision"], self._options["cache_dir"]
        cached = [try_to_load_from_cache(self.repo_id, name, cache_dir, revision) for name in names]
        new = [name for name, path in zip(names, cached, strict=True) if not isinstance(path, str)]
        if new:
            official = self.repo_id in CATALOGUE
            licence = f" (licence of the weights: {WEIGHTS_LICENSE_URL})" if official else ""
            logger.info("Downloading %s of %s%s.", ", ".join(new), self.repo_id, licence)
        try:
            patterns = [glob.escape(name) for name in names]
            return Path(snapshot_download(self.repo_id, allow_patterns=patterns, **self._options))
        except (HTTPError, OSError) as error:
            raise CheckpointError(
                self._refusal(error)
                or f"The download of {self.repo_id} broke off ({_first_line(error)}). Try again: no half of a file was "
                f"left behind. Or: {self._by_hand}"
            ) from error

    def _cached_folder(self) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            # No pattern: which of the repository's files are needed is seen from those that are there.
            folder = snapshot_download(self.repo_id, allow_patterns=[], local_files_only=True, **self._options)
        except LocalEntryNotFoundError as error:
            raise CheckpointError(self._absent("it")) from error
        return Path(folder)

    def _cached_checkpoint(self) -> Path:
        """The folder in the cache, if all of the checkpoint is there."""
        folder = self._cached_folder()
        weights = self._weights([path.name for path in folder.iterdir()])
        if len(weights) == 1 and weights[0].endswith(INDEX_SUFFIX):
            weights = shard_names(folder / weights[0])
        missing = [name for name in weights if not (folder / name).is_file()]
        if missing or not weights:
            raise CheckpointError(self._absent(", ".join(missing) or "its weights"))
        return folder

    def _absent(self, what: str) -> str:
        """The message for what the cache lacks."""
        revision = self._options["revision"]
        at = f" at revision {revision}" if revision else ""
        return (
            f"{self.repo_id}{at} is needed, but the cache on this machine lacks {what}, and {self._offline}. "
            f"{self._by_hand}"
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
