"""A node for tests: hands a pointmap that a test wrote to a file to the pack's nodes. Copied into custom_nodes."""

import sys

import folder_paths
import numpy as np
import torch


class AnalyticPointmap:
    INPUT_TYPES = classmethod(lambda cls: {"required": {"file": ("STRING", {})}})
    RETURN_TYPES = ("SAPIENS2_POINTMAP",)
    FUNCTION = "load"
    CATEGORY = "tests"

    def load(self, file):
        results = next(module for name, module in sys.modules.items() if name.endswith("sapiens2_core.results"))
        with np.load(folder_paths.get_annotated_filepath(file)) as data:
            return (results.Pointmap(**{name: torch.from_numpy(values) for name, values in data.items()}),)


NODE_CLASS_MAPPINGS = {"AnalyticPointmap": AnalyticPointmap}
