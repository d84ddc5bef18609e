"""Crops and letterboxes against what they are by definition: where each pixel came from."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers.image_utils import get_image_size_for_max_height_width
from transformers.models.sapiens2.image_processing_sapiens2 import boxes_to_crop_params as reference_crop_params

from sapiens2_core.crops import (
    Letterbox,
    boxes_to_crop_params,
    crop_and_resize,
    crop_to_image,
    letterbox,
    resize,
    resize_letterboxed,
)

ASTRONAUT = Path(__file__).parent.parent / "assets" / "astronaut.jpg"


def coordinates(height: int, width: int) -> torch.Tensor:
    """(2, H, W): each pixel holds its own x and y."""
    y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
    return torch.stack([x, y])


@pytest.mark.parametrize(
    ("box", "tolerance"),
    [
        ([120.0, 100.0, 150.0, 120.0], 2e-3),
        ([160.0, 120.0, 30.0, 160.0], 2e-3),
        # Grown, so bicubic: a cubic with a = −0.75 bends a straight line by up to 0.048 between pixels.
        ([200.5, 180.25, 8.0, 8.0], 0.05),
    ],
)
@pytest.mark.parametrize("size", [(128, 96), (96, 160)])
def test_every_pixel_of_a_crop_maps_back_to_where_it_came_from(box, tolerance, size):
    boxes = torch.tensor([box])
    crop = crop_and_resize(coordinates(400, 480), boxes, size)[0]
    grid = coordinates(*size).flatten(1).T[None]
    back = crop_to_image(grid, *boxes_to_crop_params(boxes, size), size)[0]
    torch.testing.assert_close(crop.flatten(1).T, back, rtol=0, atol=tolerance)


def test_crop_params_are_the_references():
    boxes = torch.rand(50, 4, generator=torch.Generator().manual_seed(0)) * 500 + 0.1
    centred = torch.cat([boxes[:, :2] + 0.5 * boxes[:, 2:], boxes[:, 2:]], dim=1)
    for size in ((1024, 768), (100, 333)):
        ours, theirs = boxes_to_crop_params(boxes, size), reference_crop_params(centred, size)
        torch.testing.assert_close(ours[0], theirs[0])
        torch.testing.assert_close(ours[1], theirs[1])


@pytest.mark.parametrize(
    ("box", "flag"), [([60, 40, 300, 400], cv2.INTER_LINEAR), ([230, 60, 40, 50], cv2.INTER_CUBIC)]
)
def test_crops_are_opencvs_affine_warps(box, flag):
    """Within what OpenCV's table of 32 positions between pixels allows."""
    image = cv2.imread(str(ASTRONAUT)).astype(np.float32)
    size = (128, 96)
    boxes = torch.tensor([box], dtype=torch.float32)
    (center,), (scale,) = (found.numpy() for found in boxes_to_crop_params(boxes, size))
    zoom = np.array([size[1] - 1, size[0] - 1]) / scale
    matrix = np.array(
        [[zoom[0], 0, (0.5 * scale - center)[0] * zoom[0]], [0, zoom[1], (0.5 * scale - center)[1] * zoom[1]]]
    )
    expected = cv2.warpAffine(image, matrix, (size[1], size[0]), flags=flag)
    crop = crop_and_resize(torch.from_numpy(image).movedim(-1, 0), boxes, size)[0].movedim(0, -1).numpy()
    difference = np.abs(crop - expected)
    assert difference.mean() < 0.6
    assert np.quantile(difference, 0.99) < 4


def _weights(distance: torch.Tensor, mode: str) -> torch.Tensor:
    """How much a lone pixel counts at a distance: the triangle, or Keys' cubic with a = −0.75."""
    distance = distance.abs()
    if mode == "bilinear":
        return (1 - distance).clamp(min=0)
    a = -0.75
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance <= 1, near, torch.where(distance < 2, far, 0.0))


@pytest.mark.parametrize("shape", [(1, 1), (40, 1), (1, 40)])
@pytest.mark.parametrize(("box", "mode"), [([-9.0, -3.0, 60.0, 60.0], "bilinear"), ([-1.0, -1.5, 3.0, 5.0], "bicubic")])
def test_crops_of_a_picture_one_pixel_wide_are_the_analytic_ones(shape, box, mode):
    """transformers divides by zero here."""
    size = (32, 24)
    boxes = torch.tensor([box])
    image = torch.rand(3, *shape, generator=torch.Generator().manual_seed(1))
    x, y = crop_to_image(
        coordinates(*size).flatten(1).T[None], *boxes_to_crop_params(boxes, size), size
    )[0].T  # fmt: skip
    rows = _weights(y[:, None] - torch.arange(shape[0]), mode)
    columns = _weights(x[:, None] - torch.arange(shape[1]), mode)
    expected = torch.einsum("chw,ph,pw->cp", image, rows, columns).view(3, *size)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(crop_and_resize(image, boxes, size)[0], expected, rtol=0, atol=1e-5)


def test_letterbox_is_the_references_wherever_that_has_one():
    generator = torch.Generator().manual_seed(2)
    for height, width in torch.randint(1, 5000, (300, 2), generator=generator).tolist():
        box = letterbox((height, width), (1024, 768))
        expected = get_image_size_for_max_height_width((height, width), 1024, 768)
        assert (box.height, box.width) == tuple(max(1, side) for side in expected)
        assert box.top == (1024 - box.height) // 2
        assert box.left == (768 - box.width) // 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ((1024, 768), Letterbox(0, 0, 1024, 768)),
        ((512, 512), Letterbox(128, 0, 768, 768)),
        ((2000, 100), Letterbox(0, 358, 1024, 51)),
        ((9000, 1), Letterbox(0, 383, 1024, 1)),
        ((1, 9000), Letterbox(511, 0, 1, 768)),
    ],
)
def test_letterbox_keeps_the_aspect_ratio_and_lies_in_the_middle(source, expected):
    assert letterbox(source, (1024, 768)) == expected


@pytest.mark.parametrize("source", [(300, 500), (640, 333), (97, 96), (2160, 3840), (400, 1)])
def test_letterbox_then_inverse_is_the_source_grid(source):
    canvas = (256, 192)
    image = coordinates(*source)
    boxed = resize_letterboxed(image, canvas)
    box = letterbox(source, canvas)
    inside = torch.zeros(canvas, dtype=torch.bool)
    box.cut(inside)[:] = True
    assert not boxed[:, ~inside].any()
    back = F.interpolate(box.cut(boxed)[None], size=source, mode="bilinear")[0]
    # Within one pixel of the canvas; at the border a blur over the last pixels moves inwards by half its width.
    allowed = torch.tensor([source[1] / box.width, source[0] / box.height]).clamp(min=1)
    assert ((back - image).abs() <= allowed[:, None, None]).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float64])
def test_resizing_keeps_the_type_and_is_near_float32(dtype):
    pixels = torch.randint(0, 255, (3, 50, 40), generator=torch.Generator().manual_seed(3))
    expected = resize(pixels.float(), (20, 30))
    result = resize(pixels.to(dtype), (20, 30))
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), expected, rtol=0, atol=1.01)


@pytest.mark.parametrize("source", [(400, 1), (1, 1), (100, 1)])
@pytest.mark.parametrize("height", [256, 700])
def test_a_column_one_pixel_wide_is_resized_as_wider_ones_are(source, height):
    """PyTorch's own result is wrong for floats, and so transformers' is."""
    pixels = torch.rand(3, *source, generator=torch.Generator().manual_seed(7))
    column = resize(pixels, (height, 1))
    expected = resize(pixels.expand(-1, -1, 8), (height, 8))[..., :1]
    torch.testing.assert_close(column, expected)
    in_bytes = resize((pixels * 255).round().to(torch.uint8), (height, 1))
    torch.testing.assert_close(column * 255, in_bytes.float(), rtol=0, atol=1.5)


def test_columns_that_become_one_are_averaged():
    """Antialiasing weighs three columns by a triangle as wide as six."""
    pixels = torch.rand(3, 300, 3, generator=torch.Generator().manual_seed(8))
    expected = resize((pixels * torch.tensor([2 / 7, 3 / 7, 2 / 7])).sum(-1, keepdim=True), (256, 1))
    torch.testing.assert_close(resize(pixels, (256, 1)), expected)
