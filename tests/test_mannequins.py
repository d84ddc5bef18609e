"""The mannequin world against geometry that its tracer doesn't use: signed distances, projections, symmetries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.demo import HELD_OUT, MannequinDataset, random_scene, render
from sapiens2_core.demo.primitives import Primitives, all_pairs, first_hits, pixel_pairs
from sapiens2_core.keypoints import FLIP_INDICES, KEYPOINT_NAMES

SIZE = (256, 192)
ID = {part.name: part.id for part in BODY_PARTS}
POINT = {name: index for index, name in enumerate(KEYPOINT_NAMES)}


@pytest.fixture(scope="module")
def people():
    """Scenes of one person who faces the camera, and their renders."""
    found = []
    for seed in range(400, 440):
        scene = random_scene(seed, SIZE, persons=1, framing="ground")
        picture = render(scene)
        eyes = picture.keypoints[0, [POINT["left_eye"], POINT["right_eye"]], 0]
        if eyes[0] > eyes[1]:
            found.append((scene, picture))
        if len(found) == 8:
            break
    return found


@pytest.fixture(scope="module")
def crowd():
    scene = random_scene(11, SIZE, persons=3)
    return scene, render(scene)


def solids(random: np.random.Generator, count: int, spheres: int = 0) -> Primitives:
    """Rounded cones of any stretch before the camera, the first ``spheres`` of them ellipsoids."""
    turns, _ = np.linalg.qr(random.normal(size=(count, 3, 3)))
    stretch = random.uniform(0.5, 2.0, (count, 3))
    heights = random.uniform(0.15, 0.6, count)
    heights[:spheres] = 0
    radii = random.uniform(0.05, 0.19, (count, 2))
    radii[:spheres, 1] = radii[:spheres, 0]
    radii[spheres:, 1] = radii[spheres:, 0] + random.uniform(-0.9, 0.9, count - spheres) * heights[spheres:] * 0.4
    radii = np.abs(radii) + 0.01
    return Primitives(
        centers=np.concatenate([random.uniform(-0.5, 0.5, (count, 2)), random.uniform(2, 4, (count, 1))], axis=1),
        to_local=stretch[:, :, None] * turns,
        heights=heights,
        radii=radii,
        labels=np.arange(count) % 28 + 1,
        persons=np.zeros(count, dtype=int),
        colors=np.full((count, 2, 3), 0.5),
        patterns=np.zeros(count, dtype=int),
        gloss=np.zeros(count),
        texture_maps=np.repeat(np.eye(3)[None], count, axis=0),
        texture_offsets=np.zeros((count, 3)),
    )


def depth_below_surface(shapes: Primitives, index: int, points: np.ndarray) -> np.ndarray:
    """Below 0 inside, by definition: a rounded cone is all spheres between its two ends."""
    local = (points - shapes.centers[index]) @ shapes.to_local[index].T
    part = np.linspace(0, 1, 801)[:, None]
    away = np.hypot(np.hypot(local[:, 0], local[:, 2]), local[:, 1] - part * shapes.heights[index])
    first, second = shapes.radii[index]
    return (away - first - part * (second - first)).min(axis=0)


def sphere_scene(center=(0.1, -0.05, 3.0), radius=0.5):
    scene = random_scene(0, SIZE, persons=1)
    shapes = solids(np.random.default_rng(0), 1, spheres=1)
    shapes = replace(
        shapes,
        centers=np.array([center]),
        to_local=np.eye(3)[None],
        radii=np.full((1, 2), radius),
        labels=np.array([22]),
    )
    return replace(scene, solids=shapes, focal_length=300.0)


def rays(scene, side=1):
    """(3, H·side, W·side) directions with z = 1, of a grid finer by ``side``."""
    y, x = np.mgrid[: scene.height * side, : scene.width * side]
    x, y = ((grid + 0.5) / side - 0.5 for grid in (x, y))
    ones = np.ones(x.shape)
    return np.stack([(x - (scene.width - 1) / 2) / scene.focal_length,
                     (y - (scene.height - 1) / 2) / scene.focal_length, ones])  # fmt: skip


def test_first_hits_lie_on_the_surface_and_nothing_is_inside_before():
    random = np.random.default_rng(5)
    shapes = solids(random, 40, spheres=10)
    for index in range(40):
        one = shapes.select(slice(index, index + 1))
        aim = one.centers[0] + random.normal(0, 0.2, (60, 3))
        x, y = ((aim[:, axis] / aim[:, 2]).astype(np.float32) for axis in (0, 1))
        depth, found = first_hits(one, x, y, *all_pairs(one, x, y))
        hit = found == 0
        assert hit.any()
        way = np.stack([x, y, np.ones_like(x)], axis=1).astype(np.float64)
        assert np.abs(depth_below_surface(one, 0, way[hit] * depth[hit, None])).max() < 2e-5
        for part in np.linspace(0.3, 0.999, 40):
            assert depth_below_surface(one, 0, way[hit] * depth[hit, None] * part).min() > 0
        for z in np.linspace(0.5, 6, 60):
            assert depth_below_surface(one, 0, way[~hit] * z).min(initial=1.0) > -1e-6


def test_pixel_pairs_hold_every_ray_that_hits():
    shapes = solids(np.random.default_rng(6), 30, spheres=10)
    height, width, focal_length = 96, 80, 70.0
    row, column = np.divmod(np.arange(height * width), width)
    x = ((column - (width - 1) / 2) / focal_length).astype(np.float32)
    y = ((row - (height - 1) / 2) / focal_length).astype(np.float32)
    every_ray = np.tile(np.arange(height * width), len(shapes)), np.repeat(np.arange(len(shapes)), height * width)
    culled = pixel_pairs(shapes, height, width, focal_length)
    assert len(culled[0]) < 0.5 * len(every_ray[0])
    for ours, all_of_them in zip(first_hits(shapes, x, y, *culled), first_hits(shapes, x, y, *every_ray), strict=True):
        np.testing.assert_array_equal(ours, all_of_them)


def test_sphere_has_its_exact_depth_normals_and_outline():
    center, radius = np.array([0.1, -0.05, 3.0]), 0.5
    scene = sphere_scene(tuple(center), radius)
    picture = render(scene)
    way = rays(scene)
    along = np.einsum("i,ihw->hw", center, way)
    length = (way**2).sum(axis=0)
    root = along**2 - length * (center @ center - radius**2)
    mask = root > 0
    depth = (along - np.sqrt(np.where(mask, root, 0))) / length
    assert (picture.mask.numpy() == mask).all()
    assert mask.sum() > 5000
    np.testing.assert_allclose(picture.points[2].numpy()[mask], depth[mask], rtol=1e-5)
    outward = (way * depth - center[:, None, None]) / radius * np.array([1, -1, -1])[:, None, None]
    np.testing.assert_allclose(picture.normals.numpy()[:, mask], outward[:, mask], atol=2e-3)


def test_alpha_is_the_part_of_the_pixel_that_a_sphere_covers():
    scene = sphere_scene()
    way, side = rays(scene, 16), 16
    center, radius = np.array([0.1, -0.05, 3.0]), 0.5
    covered = np.einsum("i,ihw->hw", center, way) ** 2 > (way**2).sum(axis=0) * (center @ center - radius**2)
    covered = covered.reshape(scene.height, side, scene.width, side).mean(axis=(1, 3))
    for supersample, tolerance in ((2, 0.26), (4, 0.13), (8, 0.065)):
        alpha = render(scene, supersample).alpha[0].numpy()
        assert np.abs(alpha - covered).max() < tolerance
        assert alpha.sum() == pytest.approx(covered.sum(), rel=2e-3)


def test_points_lie_on_their_pixels_rays(crowd):
    scene, picture = crowd
    np.testing.assert_allclose((picture.points / picture.points[2]).numpy(), rays(scene), atol=1e-5)
    assert picture.points[2].min() > 0.05
    assert torch.isfinite(picture.points).all()


def test_normals_are_unit_face_the_camera_and_agree_with_the_points(people):
    for scene, _ in people[:4]:
        picture = render(scene.resized(768, 576), 1)  # fine enough that neighbours lie on one solid
        normals, points = picture.normals, picture.points
        np.testing.assert_allclose(normals.norm(dim=0).numpy(), 1, atol=1e-5)
        towards_camera = -(normals * torch.tensor([1.0, -1.0, -1.0])[:, None, None] * points).sum(dim=0)
        assert towards_camera.min() > -1e-4
        middle = normals[:, 1:-1, 1:-1]
        around = [normals[:, 1:-1, 2:], normals[:, 1:-1, :-2], normals[:, 2:, 1:-1], normals[:, :-2, 1:-1]]
        smooth = picture.mask[1:-1, 1:-1].clone()
        for neighbour in around:
            smooth &= (middle * neighbour).sum(dim=0) > 0.995
        across, down = points[:, 1:-1, 2:] - points[:, 1:-1, :-2], points[:, 2:, 1:-1] - points[:, :-2, 1:-1]
        smooth &= (across[2].abs() < 0.01) & (down[2].abs() < 0.01)  # two solids of one direction may lie in a row
        measured = torch.linalg.cross(down, across, dim=0)
        measured = measured / measured.norm(dim=0) * torch.tensor([1.0, -1.0, -1.0])[:, None, None]
        angle = torch.rad2deg(torch.acos((measured * middle).sum(dim=0).clamp(-1, 1)))[smooth]
        assert len(angle) > 5000
        assert angle.median() < 0.3
        assert (angle < 2).float().mean() > 0.98


def test_joints_project_into_their_parts(people):
    clothes = {ID["Apparel"], ID["Upper_Clothing"], ID["Lower_Clothing"]}
    seen = 0
    for _, picture in people:
        for side in ("left", "right"):
            own = side.capitalize()
            expected = {
                "shoulder": {ID[f"{own}_Upper_Arm"], ID["Torso"]},
                "elbow": {ID[f"{own}_Upper_Arm"], ID[f"{own}_Lower_Arm"]},
                "wrist": {ID[f"{own}_Hand"], ID[f"{own}_Lower_Arm"]},
                "hip": {ID[f"{own}_Upper_Leg"], ID["Torso"], ID[f"{own}_Hand"]},
                "knee": {ID[f"{own}_Upper_Leg"], ID[f"{own}_Lower_Leg"]},
                "ankle": {ID[f"{own}_{part}"] for part in ("Lower_Leg", "Foot", "Shoe", "Sock")},
                "heel": {ID[f"{own}_Foot"], ID[f"{own}_Shoe"]},
                "big_toe": {ID[f"{own}_Foot"], ID[f"{own}_Shoe"]},
                "middle_finger2": {ID[f"{own}_Hand"]},
            }
            for name, labels in expected.items():
                index = POINT[f"{side}_{name}"]
                if picture.visibility[0, index]:
                    x, y = picture.keypoints[0, index].round().long().tolist()
                    here = int(picture.labels[y, x])
                    if here != 0:  # a thin part may pass between the centres of pixels
                        seen += 1
                        assert here in labels | clothes, (name, BODY_PARTS[here].name)
    assert seen > 80


def test_face_points_lie_on_the_face_and_lips_on_lips():
    scene = random_scene(27, (1024, 768), persons=1, framing="shoulder")
    picture = render(scene, 1)
    face = {ID[name] for name in ("Face_Neck", "Upper_Lip", "Lower_Lip", "Upper_Teeth", "Lower_Teeth", "Tongue",
                                  "Eyeglass", "Hair")}  # fmt: skip
    visible = [index for index in range(70, 220) if picture.visibility[0, index]]
    assert len(visible) > 100

    def label(point) -> int:
        x, y = point.round().long().tolist()
        return int(picture.labels[y, x])

    assert all(label(picture.keypoints[0, index]) in face for index in visible)
    between = (picture.keypoints[0, 190] + picture.keypoints[0, 206]) / 2  # outer and inner edge of the upper lip
    assert label(between) == ID["Upper_Lip"]
    between = (picture.keypoints[0, 191] + picture.keypoints[0, 207]) / 2
    assert label(between) == ID["Lower_Lip"]


def test_visible_keypoints_lie_just_behind_what_is_seen(people):
    for scene, picture in people:
        tolerance = torch.from_numpy(scene.people[0].depths).float()
        inside = picture.visibility[0].nonzero()[:, 0]
        x, y = picture.keypoints[0, inside].round().long().T
        seen = picture.points[2, y, x]
        on_person = picture.labels[y, x] > 0
        behind = (picture.keypoint_depths[0, inside] - seen)[on_person]
        assert len(behind) > 60
        # Within half a pixel of the keypoint the surface may fall away: nearly all, and by centimetres at most.
        assert (behind < tolerance[inside][on_person] + 0.015).float().mean() > 0.97
        assert (behind > -0.03).float().mean() > 0.93


def test_hidden_keypoints_are_behind_something():
    scene = random_scene(2, SIZE, persons=1, framing="ground")
    wall = solids(np.random.default_rng(1), 1, spheres=1)
    wall = replace(wall, centers=np.array([[0, 0, 0.4]]), to_local=np.diag([0.5, 0.5, 10])[None],
                   labels=np.zeros(1, int),
                   persons=np.array([-1]), radii=np.ones((1, 2)))  # fmt: skip
    assert render(scene).visibility.any()
    covered = render(replace(scene, solids=Primitives.join([scene.solids, wall])))
    assert not covered.visibility.any()
    assert not covered.mask.any()
    assert covered.alpha.max() == 0


def test_mirroring_swaps_sides_and_flips_x_of_normals(crowd):
    scene, picture = crowd
    mirrored = render(scene.mirrored())
    swapped = {part.id: part.id for part in BODY_PARTS}
    for part in BODY_PARTS:
        if part.name.startswith("Left_"):
            other = ID[part.name.replace("Left_", "Right_")]
            swapped[part.id], swapped[other] = other, part.id
    labels = torch.tensor([swapped[value] for value in range(29)], dtype=torch.uint8)[picture.labels.long()].flip(-1)
    same = mirrored.labels == labels
    assert same.float().mean() > 0.9999
    assert (labels != picture.labels.flip(-1)).any()
    flip = torch.tensor([-1.0, 1.0, 1.0])[:, None, None]
    for name, sign in (("normals", flip), ("points", flip), ("image", 1), ("albedo", 1), ("alpha", 1)):
        difference = (getattr(mirrored, name) - getattr(picture, name).flip(-1) * sign).abs()
        assert difference.max(dim=0).values[same].quantile(0.999) < 2e-3, name
    keypoints = picture.keypoints[:, list(FLIP_INDICES)]
    keypoints[..., 0] = scene.width - 1 - keypoints[..., 0]
    np.testing.assert_allclose(mirrored.keypoints.numpy(), keypoints.numpy(), atol=1e-2)
    assert (mirrored.visibility == picture.visibility[:, list(FLIP_INDICES)]).float().mean() > 0.999


def test_a_camera_farther_back_sees_every_depth_grow(crowd):
    scene, picture = crowd
    farther = scene.seen_from_farther(1.5)
    grown = render(farther)
    np.testing.assert_allclose(grown.keypoint_depths.numpy(), picture.keypoint_depths.numpy() + 1.5, rtol=1e-5)
    assert (grown.boxes[:, 3] < picture.boxes[:, 3]).all()
    larger = render(scene.scaled(2.0))
    assert (larger.labels == picture.labels).float().mean() > 0.9999
    same = (larger.labels == picture.labels) & (larger.persons == picture.persons)
    ratio = (larger.points[2] / picture.points[2])[same]
    assert ((ratio - 2).abs() < 1e-3).float().mean() > 0.9999
    np.testing.assert_allclose(larger.keypoints.numpy(), picture.keypoints.numpy(), atol=1e-3)


def test_light_from_elsewhere_changes_the_picture_alone(crowd):
    scene, picture = crowd
    relit = render(scene.lit_from((-0.8, -0.5, 0.2)))
    assert (relit.image - picture.image).abs().mean() > 0.01
    for name in (
        "labels",
        "persons",
        "normals",
        "points",
        "albedo",
        "alpha",
        "mask",
        "keypoints",
        "visibility",
        "boxes",
    ):
        assert torch.equal(getattr(relit, name), getattr(picture, name)), name


def test_shadows_darken_the_picture_alone(crowd):
    scene, picture = crowd
    without = render(scene, shadows=False)
    assert (picture.image <= without.image + 1e-6).all()
    assert (picture.image < without.image - 0.05).float().mean() > 0.01
    for name in ("labels", "normals", "points", "albedo", "alpha", "keypoints", "visibility"):
        assert torch.equal(getattr(without, name), getattr(picture, name)), name


def test_left_is_the_persons_own(people):
    """Who shows their face has their left at the image's right."""
    faces = 0
    for _, picture in people:
        keypoints, visible = picture.keypoints[0], picture.visibility[0]
        if visible[[POINT["nose"], POINT["center_of_glabella"], POINT["tip_of_chin"]]].all():
            faces += 1
            for name in ("shoulder", "hip"):
                assert keypoints[POINT[f"left_{name}"], 0] > keypoints[POINT[f"right_{name}"], 0]
    assert faces >= 5


def test_pictures_stay_in_range_and_foreground_is_premultiplied(people, crowd):
    for _, picture in (*people, crowd):
        for name in ("image", "albedo", "alpha", "foreground"):
            values = getattr(picture, name)
            assert values.min() >= 0, name
            assert values.max() <= 1, name
        assert (picture.foreground <= picture.alpha + 1e-6).all()
        assert (picture.foreground <= picture.image + 1e-6).all()
        inside = picture.alpha[0] == 1
        assert inside.any()
        assert torch.allclose(picture.foreground[:, inside], picture.image[:, inside])
        assert torch.equal(picture.mask, picture.labels > 0)
        assert torch.equal(picture.mask, picture.persons > 0)
        assert torch.isfinite(picture.keypoints).all()
        assert picture.keypoints.shape[1:] == (308, 2)


def test_boxes_hold_their_persons_pixels(crowd):
    _, picture = crowd
    for person, (x, y, width, height) in enumerate(picture.boxes.tolist(), 1):
        rows, columns = (picture.persons == person).nonzero().T
        assert x - 0.5 <= columns.min() <= columns.max() <= x + width + 0.5
        assert y - 0.5 <= rows.min() <= rows.max() <= y + height + 0.5
    # A box is no wider than its person, but for tips thinner than a pixel.
    front = render(random_scene(404, SIZE, persons=1, framing="ground"))
    x, y, width, height = front.boxes[0].tolist()
    rows, columns = front.mask.nonzero().T
    assert abs(rows.min() - y) < 3
    assert abs(columns.max() - x - width) < 3


def test_seeds_decide_the_picture():
    first, again, other = (render(random_scene(seed, (128, 96))) for seed in (7, 7, 8))
    for name in ("image", "labels", "normals", "points", "keypoints", "visibility"):
        assert torch.equal(getattr(first, name), getattr(again, name)), name
    assert not torch.equal(first.image, other.image)


def test_many_scenes_show_every_part_that_people_have():
    found = set()
    for seed in range(60):
        found |= set(
            render(random_scene(seed, (192, 144), framing="shoulder" if seed % 2 else "ground"), 1)
            .labels.unique()
            .tolist()
        )
    missing = {part.name for part in BODY_PARTS if part.id not in found}
    assert missing <= {"Tongue", "Lower_Teeth"}, missing


def test_arguments_that_make_no_scene_are_explained():
    with pytest.raises(ValueError, match="1 to 3 persons, not 4"):
        random_scene(0, persons=4)
    with pytest.raises(ValueError, match='no framing "feet"'):
        random_scene(0, framing="feet")


def test_dataset_rows_depend_on_seed_and_row_alone():
    dataset = MannequinDataset(100, (128, 96), seed=3)
    row = dataset[41]
    for name, value in MannequinDataset(42, (128, 96), seed=3)[41].items():
        assert torch.equal(value, row[name]), name
    assert not torch.equal(MannequinDataset(100, (128, 96), seed=4)[41]["image"], row["image"])
    with pytest.raises(IndexError):
        dataset[100]
    batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=2, sampler=range(41, 43))))
    assert torch.equal(batch["image"][0], row["image"])
    assert batch["keypoints"].shape == (2, 308, 3)
    assert HELD_OUT.stop > 1000
