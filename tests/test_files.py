import json
import sys

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core import files


def test_png_holds_the_picture(tmp_path):
    picture = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(0))
    files.write_png(tmp_path / "a.png", picture)
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == "RGB"
        pixels = torch.from_numpy(np.array(image)).movedim(-1, 0)
    assert (pixels.float() / 255 - picture).abs().max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (4, "RGBA")])
def test_png_of_grey_and_with_alpha(tmp_path, channels, mode):
    files.write_png(tmp_path / "a.png", torch.linspace(-1, 2, channels * 6).view(channels, 2, 3))
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == mode
        assert image.getextrema() != (0, 0)


def test_png_of_labels_keeps_them(tmp_path):
    labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    files.write_png(tmp_path / "a.png", labels)
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.array(image), labels)


def test_depth_png_is_16_bit_millimetres(tmp_path):
    depth = torch.tensor([[1.2344, 2.0, 70.0], [float("nan"), -1.0, float("inf")]])
    files.write_depth_png(tmp_path / "d.png", depth)
    found = cv2.imread(str(tmp_path / "d.png"), cv2.IMREAD_UNCHANGED)
    assert found.dtype == np.uint16
    assert found.tolist() == [[1234, 2000, 65535], [0, 0, 0]]


def depths() -> torch.Tensor:
    depth = 100 * torch.rand(37, 53, generator=torch.Generator().manual_seed(0))
    depth[0, :3] = torch.tensor([float("inf"), -3.0, 1e-30])
    return depth


def test_depth_png_comes_back_within_half_a_millimetre(tmp_path):
    depth = depths().clamp(0, 65.535)
    files.write_depth_png(tmp_path / "d.png", depth)
    with Image.open(tmp_path / "d.png") as image:
        found = np.array(image, dtype=np.float64) / 1000
    assert np.abs(found - depth.numpy()).max() <= 0.0005 + 1e-6


def test_exr_comes_back_bit_by_bit(tmp_path):
    av = pytest.importorskip("av")
    depth = depths()
    files.write_exr(tmp_path / "d.exr", depth)
    with av.open(str(tmp_path / "d.exr")) as container:
        (frame,) = container.decode(video=0)
    assert frame.format.name == "grayf32le"
    assert np.array_equal(frame.to_ndarray(), depth.numpy())
    header = (tmp_path / "d.exr").read_bytes()[:400]
    assert header[:4] == b"\x76\x2f\x31\x01"  # OpenEXR's magic number
    assert b"Y\0" + (2).to_bytes(4, "little") in header  # one channel, 32-bit float


def test_exr_without_its_writer_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RuntimeError, match=r"pip install av.*NPY"):
        files.write_exr(tmp_path / "d.exr", depths())
    assert not list(tmp_path.iterdir())


def test_npy_comes_back_bit_by_bit(tmp_path):
    files.write_npy(tmp_path / "d.npy", depths())
    assert np.array_equal(np.load(tmp_path / "d.npy"), depths().numpy())


def test_npz_holds_named_arrays(tmp_path):
    files.write_npz(tmp_path / "a.npz", points=torch.ones(2, 3), scale=0.5)
    with np.load(tmp_path / "a.npz") as data:
        assert set(data) == {"points", "scale"}
        assert data["points"].shape == (2, 3)
        assert data["scale"] == 0.5


def test_json_keeps_names_in_any_script(tmp_path):
    files.write_json(tmp_path / "a.json", {"名": [1.5, None]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"名": [1.5, None]}


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.json"
    files.write_json(target, {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(target, {"new": float("nan")})
    with pytest.raises(TypeError), files.replacing(target) as temporary:
        temporary.open("w").write(b"text into which bytes do not go")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert json.loads(target.read_text()) == {"old": 1}
