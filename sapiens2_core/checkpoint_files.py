"""Reading the .safetensors files of a checkpoint: one file, or a folder with one or with shards and an index."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from .layouts import Source

INDEX_SUFFIX = ".safetensors.index.json"
PICKLE_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")

#: safetensors' names of the types that weights are stored in.
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


class CheckpointError(ValueError):
    """A checkpoint that can't be used; the message says why and what to do."""


def _refuse_pickle(path: Path) -> None:
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise CheckpointError(
            f"{path.name} is a pickle file, which can run any program when it is opened, so it is not read. "
            "Use the .safetensors file of this checkpoint."
        )


def shard_names(index: Path) -> list[str]:
    """Names of the shards that an index lists.

    Raises:
        CheckpointError: it isn't such an index, or lists other files than .safetensors beside it.
    """
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        is_plain = all(name.endswith(".safetensors") and Path(name).name == name for name in names)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"{index.name} is not a readable index of shards; download {index.parent.name} again."
        ) from error
    if not is_plain:
        raise CheckpointError(f"{index.name} names files that are not shards: {', '.join(names)}.")
    return names


def _advice(file: Path) -> str:
    """What to do about a file that safetensors can't read."""
    with contextlib.suppress(OSError):
        start = file.open("rb").read(64)
        if start.startswith(b"version https://git-lfs"):
            return "It is a Git LFS pointer, a few lines that stand for the file: get the file itself (git lfs pull)."
        if start.lstrip().startswith(b"<"):
            return "It is a web page: download the file itself, not the page about it."
    return "It may be cut off: download it again."


def _main_file(folder: Path) -> Path | None:
    """The weight file of a folder without an index: model.safetensors, else the only one; None where that's open."""
    files = sorted(folder.glob("*.safetensors"))
    model = [path for path in files if path.name == "model.safetensors"]
    return (model or files)[0] if model or len(files) == 1 else None


def is_one_checkpoint(folder: Path) -> bool:
    """Whether a folder says which of its files to load, as :class:`CheckpointFiles` reads it."""
    return any(folder.glob(f"*{INDEX_SUFFIX}")) or _main_file(folder) is not None


def _files_in_folder(folder: Path) -> list[Path]:
    """The weight files of a folder: shards named by an index, else model.safetensors, else the only file."""
    indices = sorted(folder.glob(f"*{INDEX_SUFFIX}"))
    if indices:
        names = shard_names(indices[0])
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise CheckpointError(f"{folder.name} lacks shards that its index names: {', '.join(missing)}.")
        return [folder / name for name in names]
    main = _main_file(folder)
    if main is not None:
        return [main]
    files = sorted(folder.glob("*.safetensors"))
    if files:
        names = ", ".join(path.name for path in files)
        raise CheckpointError(f"{folder.name} holds several checkpoints ({names}); name one of them.")
    for path in sorted(folder.iterdir()):
        _refuse_pickle(path)
    raise CheckpointError(f"{folder.name} holds no .safetensors file.")


class CheckpointFiles:
    """The tensors of a checkpoint, by name, memory-mapped: nothing is read before it is asked for.

    Use as a context manager.

    Attributes:
        path: the file or folder given.
        files: the .safetensors files.
        config: what config.json beside them holds ({} without one).
        metadata: of the first file.
        shapes: every tensor's shape by name.
        dtypes: every tensor's type by name.

    Raises:
        CheckpointError: nothing there, a pickle, or a file that is broken.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # "." has no name to speak of
        if not self.path.exists():
            raise CheckpointError(f"There is no checkpoint at {self.path}.")
        _refuse_pickle(self.path)
        self.files = _files_in_folder(self.path) if self.path.is_dir() else [self.path]
        self.config = self._read_config() if self.path.is_dir() else {}
        self.metadata: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, torch.dtype] = {}
        self._handles: dict[str, Any] = {}
        self._stack = contextlib.ExitStack()

    def _read_config(self) -> dict[str, Any]:
        config = self.path / "config.json"
        if not config.is_file():
            return {}
        try:
            values = json.loads(config.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(f"config.json in {self.path.name} is not valid JSON ({error}).") from error
        if not isinstance(values, dict):
            raise CheckpointError(f"config.json in {self.path.name} does not hold a configuration.")
        return values

    def __enter__(self) -> CheckpointFiles:
        try:
            for file in self.files:
                self._open(file)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._handles.clear()
        self._stack.close()

    def _open(self, file: Path) -> None:
        try:
            handle = self._stack.enter_context(safe_open(file, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{file.name} is not a readable .safetensors file ({error}). {_advice(file)}"
            ) from error
        self.metadata = self.metadata or (handle.metadata() or {})
        for name in handle.keys():  # noqa: SIM118 (a safe_open handle is no dict and has no iterator)
            tensor = handle.get_slice(name)
            self.shapes[name] = tuple(tensor.get_shape())
            self.dtypes[name] = DTYPES.get(tensor.get_dtype(), torch.uint8)
            self._handles[name] = handle

    @property
    def dtype(self) -> torch.dtype:
        """The type that most weights are stored in."""
        sizes: dict[torch.dtype, int] = {}
        for name, dtype in self.dtypes.items():
            if dtype.is_floating_point:
                sizes[dtype] = sizes.get(dtype, 0) + torch.Size(self.shapes[name]).numel()
        return max(sizes, key=sizes.__getitem__, default=torch.float32)

    @property
    def num_bytes(self) -> int:
        """Size of the files."""
        return sum(file.stat().st_size for file in self.files)

    def shape(self, source: Source) -> tuple[int, ...] | None:
        """Shape of a parameter, None where the file has no such tensor."""
        shape = self.shapes.get(source.name)
        if shape is None or source.half is None:
            return shape
        return (shape[0] // 2, *shape[1:])

    def read(self, source: Source, dtype: torch.dtype, device: str | torch.device) -> Tensor:
        """A parameter as a tensor of its own: the file may be closed, replaced or deleted afterwards."""
        handle = self._handles[source.name]
        if source.half is None:
            tensor = handle.get_tensor(source.name)
        else:
            rows = self.shapes[source.name][0] // 2
            tensor = handle.get_slice(source.name)[source.half * rows : (source.half + 1) * rows]
        return tensor.to(device=device, dtype=dtype, copy=True)
