"""What Sapiens2 can be asked for: one row per task, read by everything that differs from task to task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One thing that a Sapiens2 checkpoint does.

    Attributes:
        name: short name, as in the official file names (``sapiens2_1b_normal.safetensors``).
        estimator: name of the estimator class (transformers' name where it has the class).
        predictor: name of the last convolution in the authors' checkpoints, ``None`` without a head.
        num_labels: channels of the last convolution in the official checkpoints.
        letterbox: whether frames keep their aspect ratio and are padded (else stretched) to the native input;
            the authors train normals, pointmaps and albedo letterboxed, body parts and mattes stretched.
        does: what the checkpoint does, for messages: "This checkpoint estimates normals."
    """

    name: str
    estimator: str
    predictor: str | None
    num_labels: int
    letterbox: bool
    does: str


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("pretrain", "Sapiens2Model", None, 0, False, "extracts features"),
        Task("pose", "Sapiens2ForPoseEstimation", "conv_pose", 308, False, "estimates pose"),
        Task("seg", "Sapiens2ForSemanticSegmentation", "conv_seg", 29, False, "segments body parts"),
        Task("normal", "Sapiens2ForNormalEstimation", "conv_normal", 3, True, "estimates normals"),
        Task("pointmap", "Sapiens2ForPointmapEstimation", "conv_pointmap", 3, True, "estimates pointmaps"),
        Task("matting", "Sapiens2ForImageMatting", "conv_matting", 4, False, "estimates alpha mattes"),
        Task("albedo", "Sapiens2ForAlbedoEstimation", "conv_albedo", 3, True, "estimates albedo"),
    )
}
