"""For tests: a pack that keeps files of any type in models/sapiens, and nodes that tell what is done with memory.

Copied into custom_nodes.
"""

import os

import comfy.model_management
import folder_paths

folder_paths.add_model_folder_path("sapiens", os.path.join(folder_paths.models_dir, "sapiens"))

asked = []
original = comfy.model_management.load_models_gpu


def load_models_gpu(models, memory_required=0, **options):
    asked.append(memory_required)
    return original(models, memory_required=memory_required, **options)


comfy.model_management.load_models_gpu = load_models_gpu


class MemoryAsked:
    """The last number of bytes that load_models_gpu was asked to keep free; ``after`` makes it wait."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"after": ("*", {})}})
    RETURN_TYPES = ("INT",)
    FUNCTION = "tell"
    CATEGORY = "tests"

    def tell(self, after):
        return (asked[-1],)


class ManyBoxes:
    """People side by side, as many as wanted, the same in every frame."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"count": ("INT", {})}})
    RETURN_TYPES = ("BOUNDING_BOX",)
    FUNCTION = "repeat"
    CATEGORY = "tests"

    def repeat(self, count):
        return ([{"x": 5 + 40 * index, "y": 30, "width": 35, "height": 70} for index in range(count)],)


class WeightsShared:
    """How many of the first estimator's weights lie where the second's do, and how many there are."""

    INPUT_TYPES = classmethod(
        lambda cls: {"required": {"first": ("SAPIENS2_ESTIMATOR",), "second": ("SAPIENS2_ESTIMATOR",)}}
    )
    RETURN_TYPES = ("STRING",)
    FUNCTION = "compare"
    CATEGORY = "tests"

    def compare(self, first, second):
        ours, theirs = ([w.data_ptr() for w in loaded.estimator.model.parameters()] for loaded in (first, second))
        return (f"{sum(a == b for a, b in zip(ours, theirs, strict=True))} of {len(ours)}",)


NODE_CLASS_MAPPINGS = {"MemoryAsked": MemoryAsked, "ManyBoxes": ManyBoxes, "WeightsShared": WeightsShared}
