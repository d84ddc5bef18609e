"""Our networks against numbers from the authors' released code (fp32, random weights, small networks)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sapiens2_core.checkpoint import load

GOLDEN = Path(__file__).parent / "golden"
OUTPUTS = {
    "normal": {"normals": "output"},
    "albedo": {"albedos": "output"},
    "pointmap": {"pointmaps": "output.pointmap", "scales": "output.scale"},
    "seg": {"logits": "output"},
    "pose": {"heatmaps": "output"},
    "pretrain": {"last_hidden_state": "output"},
    "pretrain_4k": {"last_hidden_state": "output"},
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_those_of_the_authors_code(name, tmp_path):
    golden = load_file(GOLDEN / f"{name}.safetensors")
    weights = {key.removeprefix("checkpoint."): value for key, value in golden.items() if key.startswith("checkpoint.")}
    save_file(weights, tmp_path / "checkpoint.safetensors")

    with torch.no_grad():
        outputs = load(tmp_path / "checkpoint.safetensors")(golden["input"])

    for field, key in OUTPUTS[name].items():
        # The scale is a small number: what counts there is the share.
        tolerance = {"rtol": 1e-4, "atol": 0} if field == "scales" else {"rtol": 0, "atol": 1e-4}
        torch.testing.assert_close(getattr(outputs, field), golden[key], **tolerance)
