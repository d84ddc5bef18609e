"""Nodes for tests: detectors of known and of random results, and what other packs hand on. Copied into custom_nodes."""

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

    def get_dtype(self):
        return torch.float32


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


class KnownSegmenter:
    """A MODEL in place of SAM 3: marks 20 pixels around each positive point, or what is in the box."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {}})
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "make"
    CATEGORY = "tests"

    class Network(torch.nn.Module):
        def forward_segment(self, frame, point_inputs=None, box_inputs=None, mask_inputs=None):
            assert frame.shape[1:] == (3, 1008, 1008)
            if mask_inputs is not None:
                return mask_inputs
            y, x = torch.meshgrid(torch.arange(1008.0), torch.arange(1008.0), indexing="ij")
            if box_inputs is not None:
                ((x1, y1), (x2, y2)) = box_inputs[0]
                inside = (x >= x1) & (x < x2) & (y >= y1) & (y < y2)
            else:
                points = point_inputs["point_coords"][0][point_inputs["point_labels"][0] == 1]
                assert len(points)
                inside = torch.stack([(x - px).hypot(y - py) < 20 for px, py in points]).any(dim=0)
            return inside[None, None] * 20.0 - 10

    def make(self):
        cpu = torch.device("cpu")
        return (comfy.model_patcher.ModelPatcher(Owner(self.Network()), load_device=cpu, offload_device=cpu),)


class KnownKeypoints:
    """POSE_KEYPOINT as it stands in a text."""

    INPUT_TYPES = classmethod(lambda cls: {"required": {"text": ("STRING", {})}})
    RETURN_TYPES = ("POSE_KEYPOINT",)
    FUNCTION = "make"
    CATEGORY = "tests"

    def make(self, text):
        return (json.loads(text),)


NODE_CLASS_MAPPINGS = {
    node.__name__: node for node in (SaveRandomDetector, KnownDetector, KnownSegmenter, KnownKeypoints)
}
