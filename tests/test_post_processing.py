"""Every way out of the processor against transformers'."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Sapiens2ImageProcessor as ReferenceProcessor

from sapiens2_core.image_processor import Sapiens2ImageProcessor

ASTRONAUT = Path(__file__).parent.parent / "assets" / "astronaut.jpg"
SIZE = {"height": 128, "width": 96}
EQUAL = [(150, 200), (150, 200), (150, 200)]
MIXED = [(150, 200), (301, 77), (128, 96)]
SIZES = pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"source_sizes": EQUAL},
        {"source_sizes": MIXED},
        {"target_sizes": EQUAL},
        {"target_sizes": MIXED},
        {"source_sizes": MIXED, "target_sizes": EQUAL},
        {"source_sizes": EQUAL, "target_sizes": MIXED},
        {"source_sizes": torch.tensor(MIXED), "target_sizes": torch.tensor(MIXED)},
        {"source_sizes": MIXED, "do_remove_padding": False},
        {"target_sizes": MIXED, "do_remove_padding": False},
        {"source_sizes": MIXED, "target_sizes": MIXED, "do_remove_padding": True},
    ],
)


@pytest.fixture(scope="module")
def processors() -> tuple[Sapiens2ImageProcessor, ReferenceProcessor]:
    return Sapiens2ImageProcessor(size=SIZE, do_pad=True), ReferenceProcessor(size=SIZE, do_pad=True)


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def assert_same(ours: list[dict], theirs: list[dict]) -> None:
    assert len(ours) == len(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        assert set(mine) == set(its)
        for key, value in mine.items():
            if its[key] is None:
                assert value is None
            else:
                assert (value.dtype, value.shape) == (its[key].dtype, its[key].shape)
                difference = (value.float() - its[key].float()).abs()
                if value.is_floating_point():
                    assert difference.max() <= 1e-4
                else:  # bytes: a float's last bit can tip one over
                    assert difference.max() <= 1
                    assert (difference > 0).float().mean() < 1e-3


@SIZES
def test_normals_are_the_references(processors, sizes):
    outputs = SimpleNamespace(normals=rand(3, 3, 128, 96) * 4 - 2)
    assert_same(*(p.post_process_normal_estimation(outputs, **sizes) for p in processors))


@SIZES
@pytest.mark.parametrize("scaled", [True, False])
def test_pointmaps_are_the_references(processors, sizes, scaled):
    scales = rand(3, 1, seed=1) + 0.5 if scaled else None
    outputs = SimpleNamespace(pointmaps=rand(3, 3, 128, 96) * 4 - 2, scales=scales)
    assert_same(*(p.post_process_pointmap_estimation(outputs, **sizes) for p in processors))


@SIZES
def test_albedos_are_clamped_after_they_are_resized(processors, sizes):
    """transformers has no albedo; a pointmap without scales goes the same way."""
    albedos = rand(3, 3, 128, 96) * 3 - 1
    ours = processors[0].post_process_albedo_estimation(SimpleNamespace(albedos=albedos), **sizes)
    pointmaps = SimpleNamespace(pointmaps=albedos, scales=None)
    theirs = processors[1].post_process_pointmap_estimation(pointmaps, **sizes)
    assert_same(ours, [{"albedo": found["pointmap"].clamp(0, 1)} for found in theirs])


@pytest.mark.parametrize("sizes", [None, EQUAL, MIXED, torch.tensor(MIXED)])
@pytest.mark.parametrize("return_segmentation_scores", [False, True])
def test_body_parts_are_the_references(processors, sizes, return_segmentation_scores):
    outputs = SimpleNamespace(logits=rand(3, 29, 128, 96))
    ours = processors[0].post_process_semantic_segmentation(outputs, sizes, return_segmentation_scores)
    sizes = sizes.tolist() if isinstance(sizes, torch.Tensor) else sizes  # transformers raises on its own tensors here
    theirs = processors[1].post_process_semantic_segmentation(outputs, sizes, return_segmentation_scores)
    for mine, its in zip(ours, theirs, strict=True):
        if return_segmentation_scores:
            torch.testing.assert_close(mine.segmentation_scores, its.segmentation_scores)
            mine, its = mine.segmentation, its.segmentation
        assert mine.dtype == torch.int64
        assert torch.equal(mine, its)


def backgrounds() -> dict:
    photo = Image.open(ASTRONAUT).convert("RGB").resize((70, 50))
    pixels = np.array(photo)
    tensor = torch.from_numpy(pixels).movedim(-1, 0)
    return {
        "none": None,
        "colour": torch.tensor([0, 177, 64], dtype=torch.uint8).view(3, 1, 1),
        "float colour": torch.tensor([0.0, 0.7, 0.25]).view(3, 1, 1),
        "numpy colour": np.array([0, 177, 64], dtype=np.uint8).reshape(1, 1, 3),
        "pil": photo,
        "grey pil": photo.convert("L"),
        "numpy": pixels,
        "numpy float": pixels.astype(np.float32) / 255,
        "int16": tensor.to(torch.int16) * 128,
        "torch of the result's size": rand(3, 150, 200, seed=3),
        "list": [photo, pixels, tensor],
        "list of several sizes": [photo, pixels[:20], rand(3, 150, 200, seed=3)],
        "batch of arrays": np.stack([pixels] * 3),
        "batch of tensors": rand(3, 3, 20, 30, seed=4),
    }


@pytest.mark.parametrize("sizes", [None, EQUAL, MIXED, torch.tensor(MIXED)])
@pytest.mark.parametrize("background", backgrounds())
def test_mattes_are_the_references(processors, sizes, background):
    alphas = rand(3, 1, 128, 96)
    outputs = SimpleNamespace(alphas=alphas, foregrounds=alphas * rand(3, 3, 128, 96, seed=1))
    behind = backgrounds()[background]
    assert_same(*(p.post_process_image_matting(outputs, sizes, behind) for p in processors))


def test_a_background_of_one_matte_and_alpha_of_backgrounds(processors):
    """transformers raises on RGBA; here its alpha is dropped."""
    outputs = SimpleNamespace(alphas=torch.zeros(1, 1, 16, 12), foregrounds=torch.zeros(1, 3, 16, 12))
    rgba = np.full((16, 12, 4), 40, dtype=np.uint8)
    for behind in (rgba, rgba[..., 0]):
        composite = processors[0].post_process_image_matting(outputs, backgrounds=behind)[0]["composite"]
        assert torch.equal(composite, torch.full((3, 16, 12), 40, dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_decoded_in_float32(processors, dtype):
    ours = processors[0]
    values = rand(3, 3, 128, 96).to(dtype)
    mattes = {"alphas": values[:, :1], "foregrounds": values}
    ways = {
        "normal_estimation": {"normals": values},
        "pointmap_estimation": {"pointmaps": values, "scales": rand(3, 1).to(dtype)},
        "albedo_estimation": {"albedos": values},
        "image_matting": mattes,
    }
    for way, fields in ways.items():
        decode = getattr(ours, f"post_process_{way}")
        results = decode(SimpleNamespace(**fields), target_sizes=MIXED)
        in_float = {name: value.float() for name, value in fields.items()}
        assert_same(results, decode(SimpleNamespace(**in_float), target_sizes=MIXED))
        assert all(value is None or value.dtype == torch.float32 for value in results[0].values())


def test_normals_are_units_where_nothing_is_resized(processors):
    outputs = SimpleNamespace(normals=rand(1, 3, 128, 96) * 4 - 2)
    normals = processors[0].post_process_normal_estimation(outputs)[0]["normals"]
    torch.testing.assert_close(normals.norm(dim=0), torch.ones(128, 96))


def test_a_very_long_photo_comes_back_to_its_size(processors):
    """transformers finds no pixels between the padding."""
    outputs = SimpleNamespace(albedos=rand(2, 3, 128, 96))
    long, wide = processors[0].post_process_albedo_estimation(outputs, source_sizes=[(3000, 1), (2, 5000)])
    assert long["albedo"].shape == (3, 3000, 1)
    assert wide["albedo"].shape == (3, 2, 5000)
    assert 0 < long["albedo"].std() < 1


def test_maps_of_another_size_than_the_options_are_cut_in_proportion(processors):
    small = SimpleNamespace(pointmaps=rand(1, 3, 64, 48), scales=None)
    expected = Sapiens2ImageProcessor(size=(64, 48)).post_process_pointmap_estimation(small, [(50, 90)])
    assert_same(processors[0].post_process_pointmap_estimation(small, [(50, 90)]), expected)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"do_remove_padding": True}, "needs source_sizes"),
        ({"source_sizes": EQUAL[:2]}, "2 source_sizes for 3 maps"),
        ({"target_sizes": EQUAL[:1]}, "1 target_sizes for 3 maps"),
        ({"target_sizes": [(10, 10), (0, 5), (3, 3)]}, r"target_sizes\[1\] is \(0, 5\)"),
    ],
)
def test_sizes_that_do_not_agree_are_an_error(processors, sizes, message):
    with pytest.raises(ValueError, match=message):
        processors[0].post_process_normal_estimation(SimpleNamespace(normals=rand(3, 3, 8, 6)), **sizes)


def test_as_many_backgrounds_as_mattes_are_needed(processors):
    outputs = SimpleNamespace(alphas=rand(3, 1, 8, 6), foregrounds=rand(3, 3, 8, 6))
    with pytest.raises(ValueError, match="2 backgrounds for 3 mattes"):
        processors[0].post_process_image_matting(outputs, backgrounds=rand(2, 3, 8, 6))
    with pytest.raises(ValueError, match="Background 0 has shape"):
        processors[0].post_process_image_matting(outputs, backgrounds=rand(8, 6, 3))
