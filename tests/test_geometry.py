import numpy as np
import pytest
import torch

from sapiens2_core.geometry import depth_picture, foreground, foreground_range, match_mask, metric_depth, percentiles
from sapiens2_core.results import Pointmap


def pointmap_of(depth, mask=None, focal=100.0):
    """A clip whose points follow from (B, H, W) depths and a pinhole camera."""
    depth = torch.as_tensor(depth, dtype=torch.float32)
    frames, height, width = depth.shape
    y, x = torch.meshgrid(torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2, indexing="ij")
    points = torch.stack([x / focal * depth, y / focal * depth, depth], dim=1)
    return Pointmap(
        points, torch.ones(frames), torch.full((frames,), focal), torch.zeros(frames, 3, height, width), mask
    )


def sphere_depth(size=200, radius=0.5, distance=3.0, focal=300.0):
    """Depth of a sphere's front seen by a pinhole camera, and where it is hit: intersection of ray and sphere."""
    steps = (torch.arange(size, dtype=torch.float64) - (size - 1) / 2) / focal
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    a = x**2 + y**2 + 1
    discriminant = distance**2 - a * (distance**2 - radius**2)
    hit = discriminant > 0
    return torch.where(hit, (distance - discriminant.clamp_min(0).sqrt()) / a, 10.0).float(), hit


def test_metric_depth_is_the_distance_along_the_cameras_axis():
    depth, hit = sphere_depth()
    found = metric_depth(pointmap_of(depth[None], focal=300.0))
    assert found.shape == (1, 1, 200, 200)
    middle = found[0, 0, 99:101, 99:101]
    assert torch.allclose(middle, torch.tensor(2.5), rtol=1e-3)
    assert found[0, 0][hit].min() == pytest.approx(2.5, rel=1e-3)


@pytest.mark.parametrize("count", [1, 2, 3, 100, 100_003])
def test_percentiles_are_numpys_exactly(count):
    generator = torch.Generator().manual_seed(count)
    values = torch.rand(count, generator=generator) * 10 ** (torch.rand(count, generator=generator) * 8 - 4)
    wanted = [0, 1, 37.5, 99, 100]
    found = percentiles(list(values.split(1 + count // 3)), wanted)
    np.testing.assert_allclose(found, np.percentile(values.double().numpy(), wanted), rtol=1e-12)


def test_percentiles_work_above_16_million_numbers():
    """There torch.quantile refuses in the versions of PyTorch that hosts have."""
    frame = torch.linspace(1, 3, 6_000_000)
    found = percentiles([frame] * 3, [1, 99])
    np.testing.assert_allclose(found, [1.02, 2.98], rtol=1e-6)


def test_percentiles_of_nothing_are_none():
    assert percentiles([torch.empty(0)], [50]) is None


def test_inverse_depth_of_a_slanted_plane_matches_the_formula():
    depth = torch.linspace(2, 4, 1001)[None, None].expand(1, 4, 1001)
    picture, near, far = depth_picture(pointmap_of(depth))
    assert picture.shape == (1, 1, 4, 1001)
    assert near.item() == pytest.approx(2.02, rel=1e-3)
    assert far.item() == pytest.approx(3.98, rel=1e-3)
    expected = ((1 / depth - 1 / 3.98) / (1 / 2.02 - 1 / 3.98)).clamp(0, 1)
    torch.testing.assert_close(picture[:, 0], expected, rtol=0, atol=1e-3)


def test_linear_curve_and_black_near():
    depth = torch.linspace(2, 4, 101)[None, None].expand(1, 2, 101)
    bounds = {"near": 2.0, "far": 4.0, "range": "metres", "curve": "linear"}
    picture, _, _ = depth_picture(pointmap_of(depth), **bounds)
    torch.testing.assert_close(picture[0, 0, 0], torch.linspace(1, 0, 101), rtol=0, atol=1e-5)
    swapped, _, _ = depth_picture(pointmap_of(depth), near_is_white=False, **bounds)
    torch.testing.assert_close(swapped, 1 - picture)


def test_bounds_are_the_foregrounds_and_the_background_is_black():
    depth, hit = sphere_depth()
    picture, near, far = depth_picture(pointmap_of(depth[None]), mask=hit[None])
    low, high = np.percentile(depth[hit].numpy(), [1, 99])
    assert near.item() == pytest.approx(low, rel=1e-3)
    assert far.item() == pytest.approx(high, rel=1e-3)
    assert (picture[0, 0][~hit] == 0).all()
    assert picture[0, 0, 100, 100] == 1


def test_background_choices():
    depth = torch.tensor([[[1.0, 2.0, 3.0, -1.0]]])
    mask = torch.tensor([[True, True, False, False]])

    def row(**more):
        return depth_picture(pointmap_of(depth), mask, near=1.0, far=2.0, **more)[0].flatten().tolist()

    assert row(background="black") == [1, 0, 0, 0]
    assert row(background="far", near_is_white=False) == [0, 1, 1, 1]
    assert row(background="keep", near_is_white=False) == [0, 1, 1, 0]  # clamped; behind the camera nothing is kept


def test_pointmaps_own_mask_is_the_default_and_a_given_one_comes_first():
    depth = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    pointmap = pointmap_of(depth, mask=torch.tensor([[[True, True, False, False]]]))
    assert foreground(pointmap, 0).tolist() == [[True, True, False, False]]
    assert foreground(pointmap, 0, torch.tensor([[0.0, 0.2, 0.8, 1.0]])).tolist() == [[False, False, True, True]]


def test_clip_scope_shares_bounds_and_frame_scope_does_not():
    depth = torch.stack([torch.linspace(1, 2, 400).view(20, 20), torch.linspace(3, 5, 400).view(20, 20)])
    near, far = foreground_range(pointmap_of(depth), scope="clip")
    low, high = np.percentile(depth.numpy(), [1, 99])
    np.testing.assert_allclose(near, [low, low], rtol=1e-6)
    np.testing.assert_allclose(far, [high, high], rtol=1e-6)
    near, _ = foreground_range(pointmap_of(depth), scope="frame")
    np.testing.assert_allclose(near, [np.percentile(frame.numpy(), 1) for frame in depth], rtol=1e-6)


def test_given_bounds_continue_a_clip_in_chunks():
    generator = torch.Generator().manual_seed(0)
    depth = 1 + torch.rand(4, 12, 10, generator=generator)
    whole, near, far = depth_picture(pointmap_of(depth))
    chunk, _, _ = depth_picture(pointmap_of(depth[2:]), near=near[0].item(), far=far[0].item())
    assert torch.equal(chunk, whole[2:])


@pytest.mark.parametrize("scope", ["clip", "frame"])
@pytest.mark.parametrize("background", ["black", "far", "keep"])
def test_frame_without_foreground_is_black_and_finite(scope, background):
    depth = torch.stack([torch.full((6, 5), 2.0), torch.full((6, 5), float("nan"))])
    mask = torch.tensor([1.0, 1.0])[:, None, None].expand(2, 6, 5)
    picture, near, far = depth_picture(pointmap_of(depth), mask, scope=scope, background=background)
    assert (picture[0] == 1).all()
    assert (picture[1] == 0).all()
    assert near.isfinite().all()
    assert far.isfinite().all()


def test_clip_without_any_foreground_has_bounds_of_zero():
    picture, near, far = depth_picture(pointmap_of(torch.ones(2, 4, 4)), torch.zeros(4, 4))
    assert not picture.any()
    assert near.tolist() == far.tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 6), (3, 8, 6), (16, 12), (3, 16, 12), (1, 4, 4)])
def test_masks_of_every_form_and_size_fit_the_clip(shape):
    mask = torch.zeros(shape)
    mask[..., : shape[-1] // 2] = 1
    fitted = match_mask(mask, 3, 8, 6)
    assert fitted.shape == (3, 8, 6)
    assert (fitted >= 0.5)[:, :, :3].all()
    assert not (fitted >= 0.5)[:, :, 3:].any()
    inside = foreground(pointmap_of(torch.ones(3, 8, 6)), 2, mask)
    assert torch.equal(inside, fitted[2] >= 0.5)


def test_mask_of_another_number_of_frames_is_an_error_that_names_both():
    with pytest.raises(ValueError, match=r"\(2, 4, 4\).*3 frames"):
        depth_picture(pointmap_of(torch.ones(3, 4, 4)), torch.ones(2, 4, 4))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"range": "metres", "near": 1.0}, "needs both bounds"),
        ({"near": -1.0}, "near is -1"),
        ({"far": float("nan")}, "far is nan"),
        ({"near": 3.0, "far": 2.0}, "smaller than far"),
    ],
)
def test_impossible_bounds_are_errors(bounds, message):
    with pytest.raises(ValueError, match=message):
        depth_picture(pointmap_of(torch.ones(1, 4, 4)), **bounds)
