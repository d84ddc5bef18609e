"""A node for tests: hands a pointmap that a test wrote to a file to the pack's nodes. Copied into custom_nodes."""

import sys

import folder_paths
import numpy as np
import torch


def module_of_the_pack(name):
    return next(module for full_name, module in sys.modules.items() if full_name.endswith(name))


class AnalyticPointmap:
    """Outputs as those of Estimate Pointmap."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"file": ("STRING", {})}})
    RETURN_TYPES = ("SAPIENS2_POINTMAP", "MOGE_GEOMETRY")
    FUNCTION = "load"
    CATEGORY = "tests"

    def load(self, file):
        with np.load(folder_paths.get_annotated_filepath(file)) as data:
            arrays = {name: torch.from_numpy(values) for name, values in data.items()}
        pointmap = module_of_the_pack("sapiens2_core.results").Pointmap(**arrays)
        return pointmap, module_of_the_pack("nodes.moge").moge_geometry(pointmap)


NODE_CLASS_MAPPINGS = {"AnalyticPointmap": AnalyticPointmap}
