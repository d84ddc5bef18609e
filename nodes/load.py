"""Load Sapiens2."""

from __future__ import annotations

from comfy_api.latest import io

from ..sapiens2_core.precision import PRECISION_CHOICES
from . import host
from .sockets import EstimatorSocket


class Sapiens2LoadModel(io.ComfyNode):
    """A checkpoint from the models folder."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2LoadModel",
            display_name="Load Sapiens2",
            category="Sapiens2",
            description="Loads a Sapiens2 checkpoint. What it does (pose, body parts, normals, pointmap, matting, "
            "albedo) is told from the file.",
            search_aliases=["sapiens", "load sapiens", "sapiens checkpoint"],
            inputs=[
                io.Combo.Input(
                    "checkpoint",
                    options=host.checkpoint_names(),
                    tooltip="Which checkpoint: the task is in its name, and a larger size (0.4b, 0.8b, 1b, 5b) sees "
                    "finer detail, is slower and needs more memory. Those on this machine come first. An official "
                    "one after them is downloaded into models/sapiens2 when the graph runs: 0.1b is about "
                    "0.5 GB, 0.4b 2, 0.8b 4, 1b 6, 5b 21, and it goes on where it stopped. A file of your own: put its "
                    ".safetensors into models/sapiens2 and press R. The last ones, demo/…, come with the pack: toy "
                    "networks that know drawn mannequins alone, to try a graph without a download. Sapiens2's "
                    "weights have Meta's own licence: github.com/facebookresearch/sapiens2/blob/main/LICENSE.md",
                ),
                io.Combo.Input(
                    "precision",
                    options=list(PRECISION_CHOICES),
                    default="auto",
                    tooltip="Numbers that the network computes in. auto: bf16 where the device is good at it, else "
                    "fp16 on a GPU and fp32 on a CPU. bf16 and fp16 halve the memory and are faster on most GPUs; "
                    "fp32 is the most exact, and the cure when a result isn't finite. fp8 weights: keeps most "
                    "weights in 8 bits and computes as auto does; half of bf16's memory, for a large checkpoint on a "
                    "small GPU, and less exact.",
                ),
                io.Boolean.Input(
                    "compile",
                    default=False,
                    optional=True,
                    tooltip="On: the network is compiled when it first runs, and again for another batch_size; that "
                    "takes a minute or more, then each frame takes less time. For long clips. Needs Triton on a GPU "
                    "(part of PyTorch on Linux), and a C++ compiler on a CPU.",
                ),
            ],
            outputs=[
                EstimatorSocket.Output("estimator", tooltip="The checkpoint, for the node of its task."),
                io.String.Output(
                    "info", tooltip="What the checkpoint is: task, size, file, licence, precision, device."
                ),
            ],
        )

    @classmethod
    def validate_inputs(cls, checkpoint: str | None) -> bool:
        """Takes any name: what isn't on this machine is downloaded when the node runs, or the error says what to do.

        That this takes ``checkpoint`` keeps ComfyUI from comparing it with the list; a message from here would hide
        behind a small icon.
        """
        return True

    @classmethod
    def fingerprint_inputs(cls, checkpoint: str | None, precision: str, compile: bool = False) -> str:
        """Loads again when the file was replaced; which file a linked value names isn't known yet."""
        return "" if checkpoint is None else host.checkpoint_fingerprint(checkpoint)

    @classmethod
    def execute(cls, checkpoint: str, precision: str, compile: bool = False) -> io.NodeOutput:
        """Loads, or finds it loaded; downloads it before, if need be."""
        loaded = host.load_estimator(checkpoint, precision, compile)
        return io.NodeOutput(loaded, host.describe(checkpoint, precision, compile, loaded))
