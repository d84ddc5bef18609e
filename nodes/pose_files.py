"""Load Pose and Save Pose."""

from __future__ import annotations

from comfy_api.latest import io

from ..sapiens2_core.pose_files import load_pose, save_coco, save_openpose
from ..sapiens2_core.results import Pose
from . import host
from .sockets import PoseKeypointSocket, PoseSocket

FORMATS = ["OpenPose JSON", "308 JSON"]


class Sapiens2LoadPose(io.ComfyNode):
    """Poses from a file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2LoadPose",
            display_name="Load Pose (Sapiens2)",
            category="Sapiens2/Pose",
            description="Reads poses that Save Pose, OpenPose, DWPose or another pack wrote as JSON.",
            search_aliases=["openpose json", "load openpose", "dwpose json", "keypoints json", "import pose", "coco"],
            inputs=[
                io.Combo.Input(
                    "file",
                    options=host.pose_inputs(),
                    tooltip="A JSON file in ComfyUI's input folder, or a folder there with one file per frame, in "
                    "order of their numbers. Press R after putting one there.",
                ),
                io.Int.Input(
                    "width",
                    default=0,
                    min=0,
                    max=16384,
                    tooltip="Width of the frames in pixels, for files that don't say it, such as OpenPose's own. "
                    "Others keep the size that they say.",
                ),
                io.Int.Input(
                    "height",
                    default=0,
                    min=0,
                    max=16384,
                    tooltip="Height of the frames in pixels, for files that don't say it.",
                ),
            ],
            outputs=[
                PoseSocket.Output(
                    "pose", tooltip="The people as 308 keypoints; of an OpenPose file, those that it has."
                ),
                PoseKeypointSocket.Output("keypoints", tooltip="The people as OpenPose keypoints, in pixels."),
            ],
        )

    @classmethod
    def validate_inputs(cls, file: str | None) -> bool | str:
        """Says what to put where when the file isn't there; a linked value is checked when it runs."""
        try:
            if file is not None:
                host.find_pose_input(file)
        except ValueError as error:
            return str(error)
        return True

    @classmethod
    def fingerprint_inputs(cls, file: str | None, width: int, height: int) -> str:
        """Loads again when the file was replaced; which file a linked value names isn't known yet."""
        return "" if file is None else host.fingerprint(host.find_pose_input(file))

    @classmethod
    def execute(cls, file: str, width: int, height: int) -> io.NodeOutput:
        """Reads the file or the files of the folder."""
        return io.NodeOutput(*load_pose(host.find_pose_input(file), height, width))


class Sapiens2SavePose(io.ComfyNode):
    """Poses into a file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SavePose",
            display_name="Save Pose (Sapiens2)",
            category="Sapiens2/Pose",
            description="Writes the poses of a clip into ComfyUI's output folder as JSON, always with real scores.",
            search_aliases=["openpose json", "save keypoints", "export pose", "coco json", "dwpose json"],
            is_output_node=True,
            inputs=[
                PoseSocket.Input("pose", tooltip="From Estimate Pose, Smooth Pose or Load Pose."),
                io.Combo.Input(
                    "format",
                    options=FORMATS,
                    default=FORMATS[0],
                    tooltip="OpenPose JSON: a folder with a file per frame, for programs that read OpenPose; body, "
                    "feet, hands and face. 308 JSON: one COCO-style file for the clip, all keypoints with names and "
                    "boxes, nothing lost.",
                ),
                io.String.Input(
                    "filename_prefix",
                    default="pose/sapiens2",
                    tooltip="Where in the output folder, and how the name begins; a number follows. Subfolders and "
                    "%width%, %height%, %year%, %month%, %day% work as in Save Image.",
                ),
            ],
            outputs=[io.String.Output("path", tooltip="The file, or the folder of files, that was written.")],
        )

    @classmethod
    def execute(cls, pose: Pose, format: str, filename_prefix: str) -> io.NodeOutput:
        """Writes under a temporary name and renames."""
        if not pose.frames:
            raise ValueError("pose has no frames: there is nothing to save.")
        size = pose.frames[0].height, pose.frames[0].width
        if format == FORMATS[0]:
            (path,) = host.output_paths(filename_prefix, "", 1, *size)
            save_openpose(pose, path)
        else:
            (path,) = host.output_paths(filename_prefix, ".json", 1, *size)
            save_coco(pose, path)
        return io.NodeOutput(str(path))
