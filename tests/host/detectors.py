"""Nodes for tests: detectors of known and of random results. Copied into custom_nodes."""

import json
import os

import comfy.ldm.rt_detr.rtdetr_v4 as rt_detr
import comfy.model_patcher
import comfy.utils
import folder_paths
import torch


class SaveRandomDetector:
    """An RT-DETR of random weights that takes most things for people, where Load Diffusion Model finds it."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"name": ("STRING", {})}})
    RETURN_TYPES = ("STRING",)
    FUNCTION = "save"
    CATEGORY = "tests"

    def save(self, name):
        torch.manual_seed(0)
        with torch.inference_mode(False):
            network = rt_detr.RTv4(operations=torch.nn)
        with torch.no_grad():
            network.decoder.dec_score_head[-1].bias[0] += 2  # class 0 is person
        folder = os.path.join(folder_paths.models_dir, "diffusion_models")
        os.makedirs(folder, exist_ok=True)
        tensors = {key: value.half().clone() for key, value in network.state_dict().items()}
        comfy.utils.save_torch_file(tensors, os.path.join(folder, name))
        return (name,)


class KnownNetwork(rt_detr.RTv4):
    """Finds the same things whatever it sees, one list per frame, each (x1, y1, x2, y2, score, class)."""

    def __init__(self, found):
        torch.nn.Module.__init__(self)
        self.found, self.next = found, 0

    def forward(self, pixels, orig_size):
        assert pixels.shape[1:] == (3, 640, 640)
        results = []
        for _ in pixels:
            rows = torch.tensor(self.found[self.next % len(self.found)]).reshape(-1, 6)
            self.next += 1
            results.append({"boxes": rows[:, :4], "scores": rows[:, 4], "labels": rows[:, 5].long()})
        return results


class Owner(torch.nn.Module):
    """What a patcher takes for a model."""

    def __init__(self, network):
        super().__init__()
        self.diffusion_model = network
        self.device = None


class KnownDetector:
    """A MODEL of :class:`KnownNetwork`; of another kind without a text."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"found": ("STRING", {})}})
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "make"
    CATEGORY = "tests"

    def make(self, found):
        network = KnownNetwork(json.loads(found)) if found else torch.nn.Identity()
        cpu = torch.device("cpu")
        return (comfy.model_patcher.ModelPatcher(Owner(network), load_device=cpu, offload_device=cpu),)


NODE_CLASS_MAPPINGS = {"SaveRandomDetector": SaveRandomDetector, "KnownDetector": KnownDetector}
