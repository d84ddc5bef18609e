"""Save Pointmap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from comfy_api.latest import io

from ..sapiens2_core.files import write_depth_png, write_exr, write_npy, write_npz
from ..sapiens2_core.results import Pointmap
from . import host
from .sockets import pointmap_input


def _write_points(path: Path, pointmap: Pointmap, index: int) -> None:
    more = {} if pointmap.mask is None else {"mask": pointmap.mask[index]}
    intrinsics, scale = pointmap.intrinsics[index], float(pointmap.scales[index])
    write_npz(path, points=pointmap.points[index].movedim(0, -1), intrinsics=intrinsics, scale=scale, **more)


Writer = Callable[[Path, Pointmap, int], None]
#: Per format: a file's suffix, and what writes one frame.
FORMATS: dict[str, tuple[str, Writer]] = {
    "PNG 16 bit": (".png", lambda path, pointmap, index: write_depth_png(path, pointmap.points[index, 2])),
    "EXR": (".exr", lambda path, pointmap, index: write_exr(path, pointmap.points[index, 2])),
    "NPY": (".npy", lambda path, pointmap, index: write_npy(path, pointmap.points[index, 2])),
    "NPZ": (".npz", _write_points),
}


class Sapiens2SavePointmap(io.ComfyNode):
    """Depth or points in files that lose nothing."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SavePointmap",
            display_name="Save Pointmap",
            category="Sapiens2/3D",
            description="Saves depth or points for other programs, a file per frame, into ComfyUI's output folder.",
            search_aliases=["save depth", "export depth", "16 bit depth", "exr depth", "npz", "npy", "save points"],
            is_output_node=True,
            inputs=[
                pointmap_input(),
                io.Combo.Input(
                    "format",
                    options=list(FORMATS),
                    default="PNG 16 bit",
                    tooltip="PNG 16 bit: depth in whole millimetres, up to 65.535 m, 0 where there is none. "
                    "EXR, NPY: depth in metres, as it is. NPZ: all points, with the camera's intrinsics.",
                ),
                io.String.Input(
                    "filename_prefix",
                    default="pointmap",
                    tooltip="What file names begin with; may hold subfolders of the output folder, and %width%, "
                    "%height%, %year%, %month%, %day%. A number follows.",
                ),
            ],
            outputs=[io.String.Output("path", is_output_list=True, tooltip="Where the files are, one per frame.")],
        )

    @classmethod
    def execute(cls, pointmap: Pointmap, format: str, filename_prefix: str) -> io.NodeOutput:
        """Writes frame by frame."""
        suffix, write = FORMATS[format]
        frames, _, height, width = pointmap.points.shape
        paths = host.output_paths(filename_prefix, suffix, frames, height, width)
        for index in host.with_progress(frames):
            write(paths[index], pointmap, index)
        return io.NodeOutput([str(path) for path in paths])
