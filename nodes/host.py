"""ComfyUI's side of everything: model folders, memory, precision, progress, cancellation.

Beside host_detector.py the only file of the pack that imports comfy.* or folder_paths.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import comfy.model_management
import comfy.model_patcher
import comfy.ops
import comfy.utils
import folder_paths
import torch
from torch import Tensor, nn

from ..sapiens2_core import checkpoint
from ..sapiens2_core.auto import AutoImageProcessor
from ..sapiens2_core.checkpoint_files import is_one_checkpoint
from ..sapiens2_core.compilation import compile_parts
from ..sapiens2_core.config import official_config
from ..sapiens2_core.demo.checkpoints import demo_checkpoints
from ..sapiens2_core.download import download
from ..sapiens2_core.hub import CATALOGUE, WEIGHTS_LICENSE_URL
from ..sapiens2_core.inference import Estimator
from ..sapiens2_core.precision import FP8_WEIGHTS, choose_dtype
from .inputs import check_image
from .sockets import LoadedEstimator

logger = logging.getLogger("sapiens2")

#: Kinds of model folders: ours, and one that people already keep Sapiens checkpoints in.
MODEL_FOLDERS = ("sapiens2", "sapiens")
_SUFFIX = ".safetensors"
_CATALOGUE_BY_FILE = {official.filename: official.repo_id for official in CATALOGUE.values()}


class Sapiens2(nn.Module):
    """The network as ComfyUI keeps it: it writes its bookkeeping (``device``, loaded bytes…) on the module it owns."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.device = None


def register_model_folders() -> None:
    """Makes models/sapiens2 and models/sapiens known, beside what extra_model_paths.yaml says of them.

    Which suffixes a kind has that is known already is left alone, and so is "sapiens" in any case: other packs keep
    files of other types there.
    """
    ours, also = MODEL_FOLDERS
    folder_paths.folder_names_and_paths.setdefault(ours, ([], {_SUFFIX}))
    for kind in (ours, also):
        folder_paths.add_model_folder_path(kind, os.path.join(folder_paths.models_dir, kind))


def _local_files() -> dict[str, Path]:
    """Files and folders that may be checkpoints, by path relative to their models folder, with forward slashes.

    A folder with a config.json that says which file to load is one checkpoint, named like the folder; the authors'
    files in it are their own.
    """
    found: dict[str, Path] = {}
    for kind in MODEL_FOLDERS:
        for name in folder_paths.get_filename_list(kind):
            path = folder_paths.get_full_path(kind, name) if name.endswith(_SUFFIX) else None
            if path is None:
                continue
            name, path = name.replace(os.sep, "/"), Path(path)
            folder = path.parent
            has_config = "/" in name and path.name not in _CATALOGUE_BY_FILE and (folder / "config.json").is_file()
            if has_config and is_one_checkpoint(folder):
                name, path = name.rpartition("/")[0], folder
            found.setdefault(name, path)
    return found


_recognised: dict[tuple[str, int], str | None] = {}


def _official_name(path: Path) -> str | None:
    """Catalogue name of the checkpoint whose tensors these are, None for all others, broken ones included.

    Every width, the native input and the number of classes must be those of the official one: a fine-tune for other
    classes is another checkpoint. Names of classes don't count, since only some layouts hold them.
    """
    try:
        key = (str(path), path.stat().st_mtime_ns)
        if key not in _recognised:
            _recognised[key] = None  # what can't be read isn't read again before it changes
            info = checkpoint.inspect(path)
            name = f"facebook/sapiens2-{info.task}-{info.size}"
            config = info.config.replaced(num_labels=info.config.num_labels)  # names its classes LABEL_0, LABEL_1…
            official = name in CATALOGUE and config == official_config(info.size, info.task)
            _recognised[key] = name if official else None
        return _recognised[key]
    except Exception as error:
        # Of any kind: one odd file, which may vanish or change while it is looked at, must not take the node out of
        # the menu. Who chooses the file is told what is wrong with it.
        logger.debug("%s is listed by its path: %s", path, error)
        return None


def local_checkpoints() -> dict[str, Path]:
    """Checkpoints on this machine by their name in a graph.

    Official ones under their catalogue name, told by file name, else by their tensors (a second one that fits the
    same name is listed by its path); others by their path.
    """
    files = _local_files()
    named: dict[str, Path] = {}
    for path in files.values():
        if path.name in _CATALOGUE_BY_FILE:
            named.setdefault(_CATALOGUE_BY_FILE[path.name], path)
    others: dict[str, Path] = {}
    for relative, path in files.items():
        if path in named.values():
            continue
        official = _official_name(path)
        if official is not None and official not in named:
            named[official] = path
        else:
            others[relative] = path
    return {name: named[name] for name in CATALOGUE if name in named} | others


def checkpoint_names() -> list[str]:
    """Values of the checkpoint list: what is on this machine, then the rest of the catalogue, to be downloaded.

    The whole catalogue is there, so that a graph from somebody else opens with its value intact. The pack's own toy
    networks come last: nobody should take them for Sapiens2.
    """
    local = local_checkpoints()
    return [*local, *(name for name in CATALOGUE if name not in local), *demo_checkpoints()]


def find_checkpoint(name: str) -> Path | None:
    """Path of the checkpoint that a graph names; None if it isn't on this machine."""
    # A path stays good after the file it names is listed under its catalogue name.
    return demo_checkpoints().get(name) or local_checkpoints().get(name) or _local_files().get(name)


def provide_checkpoint(name: str) -> Path:
    """Path of the checkpoint that a graph names: an official one that isn't here is downloaded into models/sapiens2.

    With the progress bar of the node that runs, and ComfyUI's cancel button.

    Raises:
        ValueError: it isn't here and can't be had; the message says what to put where.
    """
    path = find_checkpoint(name)
    if path is not None:
        return path
    folder = Path(folder_paths.models_dir, MODEL_FOLDERS[0])
    official = CATALOGUE.get(name)
    if official is None:
        raise ValueError(f'There is no checkpoint "{name}" in {folder}. Put the file there, or choose another.')
    bar = comfy.utils.ProgressBar(1)
    return download(
        official,
        folder,
        on_progress=bar.update_absolute,
        check_cancelled=comfy.model_management.throw_exception_if_processing_interrupted,
    )


def checkpoint_fingerprint(name: str) -> str:
    """Changes when the checkpoint that a graph names is replaced on disk, or comes there."""
    path = find_checkpoint(name)
    return "" if path is None else fingerprint(path)


#: Loaded checkpoints that something still uses, so that two loaders of one file share its weights.
_loaded: weakref.WeakValueDictionary[tuple[Any, ...], LoadedEstimator] = weakref.WeakValueDictionary()


def load_estimator(name: str, precision: str, compiled: bool = False) -> LoadedEstimator:
    """Loads a checkpoint, or returns the one loaded already.

    Args:
        name: a value of :func:`checkpoint_names`.
        precision: "auto", "bf16", "fp16", "fp32" or "fp8 weights".
        compiled: whether the network compiles itself when it first runs.

    Raises:
        ValueError: it isn't there and can't be had, isn't a Sapiens2 checkpoint or is broken.
    """
    path = provide_checkpoint(name)
    device = comfy.model_management.get_torch_device()
    dtype = choose_dtype(device, precision)
    fp8_weights = precision == FP8_WEIGHTS
    key = (fingerprint(path), dtype, fp8_weights, compiled)
    loaded = _loaded.get(key)
    if loaded is None:
        network = checkpoint.load(path, dtype=dtype, operations=comfy.ops.manual_cast, fp8_weights=fp8_weights)
        patcher_class = comfy.model_patcher.CoreModelPatcher
        if compiled:
            compile_parts(network)
            # The other one may bring weights to the device while layers run, which can't be compiled.
            patcher_class = comfy.model_patcher.ModelPatcher
        patcher = patcher_class(
            Sapiens2(network), load_device=device, offload_device=comfy.model_management.unet_offload_device()
        )
        processor = AutoImageProcessor.from_pretrained(path)
        loaded = LoadedEstimator(Estimator(network, device, dtype, processor), patcher)
        _loaded[key] = loaded
    return loaded


def describe(name: str, precision: str, compiled: bool, loaded: LoadedEstimator) -> str:
    """What a checkpoint is that was loaded by this name, precision and so on, in a few lines for people."""
    info = checkpoint.inspect(provide_checkpoint(name))
    height, width = info.config.image_height_width
    dtype = str(loaded.estimator.dtype).removeprefix("torch.")
    is_toy = name in demo_checkpoints()
    chosen = f"{dtype} (chosen for this device)" if precision in ("auto", FP8_WEIGHTS) else dtype
    return "\n".join(
        (
            f"checkpoint: {name}",
            *([f"licence of the weights: {WEIGHTS_LICENSE_URL}"] if name in CATALOGUE else []),
            *(["a toy network that knows drawn mannequins alone: not Sapiens2's weights"] if is_toy else []),
            f"file: {info.path}",
            f"task: {info.task} ({loaded.estimator.task.does})",
            f"size: {info.size}, {info.num_parameters / 1e6:,.1f} M parameters, {info.num_bytes / 2**20:,.1f} MiB",
            f"layout: {info.layout}, stored as {str(info.dtype).removeprefix('torch.')}",
            f"native input: {width} × {height}",
            f"computes in: {chosen} on {loaded.estimator.device}{', compiled' if compiled else ''}",
            *(["weights of linear layers kept in: float8_e4m3fn"] if precision == FP8_WEIGHTS else []),
        )
    )


def activation_bytes(estimator: Estimator, batch_size: int) -> int:
    """About how much device memory a batch of frames, or of crops of people, needs beside the weights.

    The larger of what a transformer layer and what the decode head's widest map take: a layer holds queries, keys,
    values, the MLP's two inner maps and a few copies of the tokens; a head block its input, its output, and the
    normalised copy in the making.
    """
    config = estimator.model.config
    height, width = config.image_height_width
    tokens = height * width // (config.patch_height_width[0] * config.patch_height_width[1])
    largest = tokens * (3 * config.intermediate_size + 6 * config.hidden_size)
    if config.head_config is not None:
        for level, channels in enumerate(config.head_config.upsample_out_channels, start=1):
            largest = max(largest, 4 * tokens * 4**level * channels)
    return batch_size * largest * estimator.dtype.itemsize


def predict(
    loaded: LoadedEstimator,
    task: str,
    image: Tensor,
    *,
    boxes: Sequence[Sequence[tuple[float, float, float, float]]] | None = None,
    batch_size: int = 1,
    **options: Any,
) -> Iterator[Any]:
    """Runs a checkpoint over an IMAGE batch, result by result, with ComfyUI's progress bar and cancel button.

    Frames are views of ``image`` and go to the device batch by batch, so that a long clip never sits there whole.

    Args:
        loaded: the checkpoint.
        task: what the node is for, such as "pose".
        image: (B, H, W, 3 or 4) 0..1.
        boxes: of each frame, for pose.
        batch_size: frames or crops at once.
        options: further arguments of ``Estimator.predict``.

    Raises:
        ValueError: a checkpoint of another task, an empty batch, pixels that aren't numbers. Before work starts.
    """
    loaded.estimator.require(task)
    check_image(image)
    return _predict(loaded, image, boxes, batch_size, options)


def _predict(
    loaded: LoadedEstimator, image: Tensor, boxes: Sequence[Any] | None, batch_size: int, options: dict[str, Any]
) -> Iterator[Any]:
    """The work of :func:`predict`: a generator would put off its checks."""
    crops = len(image) if boxes is None else sum(len(people) for people in boxes)
    memory = activation_bytes(loaded.estimator, min(batch_size, crops))
    comfy.model_management.load_models_gpu([loaded.patcher], memory_required=memory)
    bar = comfy.utils.ProgressBar(len(image))  # takes the id of the node that runs
    batches = loaded.estimator.predict(
        (frame.movedim(-1, 0) for frame in image),
        boxes,
        batch_size=batch_size,
        on_progress=bar.update_absolute,
        check_cancelled=comfy.model_management.throw_exception_if_processing_interrupted,
        **options,
    )
    for batch in batches:
        yield from batch
        del batch  # or it would live on while the next is made


def empty_images(num_frames: int, height: int, width: int, channels: int = 3) -> Tensor:
    """Room for (B, H, W, C) pictures where and as ComfyUI wants them between nodes."""
    return torch.empty(
        (num_frames, height, width, channels),
        dtype=comfy.model_management.intermediate_dtype(),
        device=comfy.model_management.intermediate_device(),
    )


def empty_masks(num_frames: int, height: int, width: int) -> Tensor:
    """Room for (B, H, W) masks where and as ComfyUI wants them between nodes."""
    return empty_images(num_frames, height, width, 1).squeeze(-1)


def output_paths(filename_prefix: str, suffix: str, count: int, height: int, width: int) -> list[Path]:
    """Names of new files in ComfyUI's output folder, numbered on from those that are there.

    Args:
        filename_prefix: as SaveImage takes it: with subfolders, %width%, %date…% and the like.
        suffix: ".png".
        count: number of files.
        height, width: of the frames, for the prefix.

    Raises:
        Exception: ComfyUI's own, for a prefix that leads out of the output folder.
    """
    output = folder_paths.get_output_directory()
    folder, name, first, _, _ = folder_paths.get_save_image_path(filename_prefix, output, width, height)
    # %batch_num% stays as it is: ComfyUI's counter looks for files that are named so, and would number on from none.
    return [Path(folder, f"{name}_{first + index:05}_{suffix}") for index in range(count)]


def with_progress(num_frames: int) -> Iterator[int]:
    """Counts frames, with ComfyUI's progress bar and cancel button, for work that goes frame by frame."""
    bar = comfy.utils.ProgressBar(num_frames)
    for index in range(num_frames):
        comfy.model_management.throw_exception_if_processing_interrupted()
        yield index
        bar.update_absolute(index + 1)


def pose_inputs() -> list[str]:
    """JSON files in ComfyUI's input folder, and folders there that hold some, relative, with forward slashes."""
    root = Path(folder_paths.get_input_directory())
    files = [path.relative_to(root) for path in root.rglob("*.json")]
    folders = {file.parent for file in files if file.parent != Path()}
    return sorted(path.as_posix() for path in (*files, *folders))


def find_pose_input(name: str) -> Path:
    """Path of a file or folder with poses.

    Args:
        name: relative to ComfyUI's input folder; "name [output]" is in the output folder, as for pictures.

    Raises:
        ValueError: it isn't there, or lies elsewhere.
    """
    relative, annotated = folder_paths.annotated_filepath(name)
    root = annotated or folder_paths.get_input_directory()
    path = Path(root, relative)
    if not folder_paths.is_within_directory(root, str(path)):
        raise ValueError(f"{name} lies outside of ComfyUI's input folder. Put it into {root}.")
    if not path.exists():
        raise ValueError(f"There is no {relative} in {root}. Put it there and press R, or choose another.")
    return path


def fingerprint(path: Path) -> str:
    """Changes when a file, or a file in a folder, is replaced on disk."""
    files = sorted(path.glob("*")) if path.is_dir() else [path]
    return str([(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files])
