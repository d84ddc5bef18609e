"""The tools that train and measure the small networks: nothing is learned here but that they do what they say."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core import Estimator, Sapiens2ImageProcessor
from sapiens2_core.__main__ import main
from sapiens2_core.checkpoint import inspect
from sapiens2_core.demo import MannequinDataset, measures, random_scene, render
from sapiens2_core.demo.figure import swap_sided_labels
from sapiens2_core.results import FrameMatte, FramePointmap, FramePose, PersonPose
from tools import demo_pool, evaluate_demo, train_demo

SIZE = (128, 96)
TINY = [
    *("--size", "128", "96", "--patch-size", "16", "--hidden-size", "32", "--intermediate-size", "64", "--layers", "4"),
    *("--full-layers", "1", "--head-width", "16", "--rows", "10", "--batch-size", "2", "--workers", "0"),
    *("--steps", "4", "--save-every", "2", "--report-every", "2"),
]


@pytest.fixture(scope="module")
def pool_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    demo_pool.open_pool(folder, 10, SIZE)
    return folder


@pytest.fixture(scope="module")
def pool(pool_folder):
    return demo_pool.open_pool(pool_folder, 10, SIZE)


@pytest.fixture(scope="module")
def trained(pool_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    return train_demo.main(["--output", str(folder), "--pool", str(pool_folder), *TINY]), folder


def row_of(picture) -> dict[str, torch.Tensor]:
    names = ("image", "labels", "normals", "points", "albedo", "alpha", "foreground")
    visibility = picture.visibility[0, :, None].float()
    return {name: getattr(picture, name) for name in names} | {
        "keypoints": torch.cat([picture.keypoints[0], visibility], dim=1),
        "box": picture.boxes[0],
        "focal_length": torch.tensor(picture.focal_length),
    }


def test_the_pool_holds_the_data_sets_rows(pool):
    expected = MannequinDataset(10, SIZE)[3]
    row = demo_pool.unpack(pool[3])
    assert row["labels"].equal(expected["labels"])
    assert row["keypoints"].equal(expected["keypoints"])
    assert row["box"].equal(expected["box"])
    for name in ("image", "foreground", "albedo", "alpha"):
        torch.testing.assert_close(row[name], expected[name], rtol=0, atol=0.5 / 255 + 1e-6)
    assert (row["normals"] * expected["normals"]).sum(dim=0).min() > np.cos(np.radians(0.5))
    torch.testing.assert_close(row["points"], expected["points"], rtol=1e-3, atol=1e-4)


def test_an_interrupted_drawing_goes_on_where_it_stopped(tmp_path, pool, pool_folder):
    (path,) = pool_folder.glob("*.npy")
    copied = np.load(path)
    copied["is_drawn"][6:] = 0
    copied["image"][6:] = 0
    copied["image"][2] = 7  # what is there is not drawn again
    np.save(tmp_path / path.name, copied)
    again = demo_pool.open_pool(tmp_path, 10, SIZE)
    assert (again["image"][2] == 7).all()
    assert (again["image"][6:] == pool["image"][6:]).all()


@pytest.mark.parametrize("seed", [3, 4])
def test_a_flipped_row_is_the_mirrored_scene(seed):
    scene = random_scene(seed, (128, 96), persons=1)
    row = demo_pool.flipped(row_of(render(scene)))
    mirrored = row_of(render(scene.mirrored()))
    same = row["labels"] == mirrored["labels"]
    assert same.float().mean() > 0.998  # a ray may graze an edge on either side
    assert (row["labels"] > 4).any()
    for name, tolerance in (("normals", 0.01), ("points", 0.01), ("albedo", 0.01), ("image", 0.02), ("alpha", 0.26)):
        off = (row[name] - mirrored[name]).abs().amax(dim=0) > tolerance
        assert off[same].float().mean() < 0.004, name
    torch.testing.assert_close(row["keypoints"][:, :2], mirrored["keypoints"][:, :2], rtol=0, atol=0.01)
    assert (row["keypoints"][:, 2] == mirrored["keypoints"][:, 2]).float().mean() > 0.98
    torch.testing.assert_close(row["box"], mirrored["box"], rtol=0, atol=0.01)


def test_mirrored_part_ids_agree_with_the_figures():
    assert demo_pool.FLIP_LABELS.tolist() == swap_sided_labels(np.arange(29)).tolist()


def test_a_row_depends_on_its_position_alone_and_every_epoch_holds_every_row(pool):
    rows, again = (demo_pool.TrainingRows(pool, seed=5, stride=2) for _ in range(2))
    for name, value in rows[13].items():
        assert value.equal(again[13][name]), name
    epochs = [[rows.index(position) for position in range(start, start + 10)] for start in (0, 10)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert epochs[0] != epochs[1]
    assert not rows[13]["image"].equal(demo_pool.TrainingRows(pool, seed=6, stride=2)[13]["image"])


def test_shrunk_maps_are_means_of_what_lies_on_people(pool):
    row = demo_pool.unpack(pool[3])
    small = demo_pool.shrunk(row, 4)
    people = (row["labels"] > 0).numpy()
    ys, xs = np.nonzero(people[: SIZE[0] // 4 * 4 : 4, : SIZE[1] // 4 * 4 : 4])  # corners of blocks on people
    assert len(ys) > 20
    for y, x in zip(ys[::7], xs[::7], strict=True):
        block = np.s_[..., 4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
        inside = people[block[1:]]
        assert bool(small["mask"][0, y, x]) == (inside.sum() > 8)
        for name in ("points", "albedo"):
            expected = row[name].numpy()[block][:, inside].mean(axis=1)
            np.testing.assert_allclose(small[name][:, y, x], expected, rtol=1e-4)
        mean = row["normals"].numpy()[block][:, inside].mean(axis=1)
        np.testing.assert_allclose(small["normals"][:, y, x], mean / np.linalg.norm(mean), atol=1e-4)
        np.testing.assert_allclose(small["alpha"][0, y, x], row["alpha"].numpy()[block].mean(), rtol=1e-4)
    assert small["image"] is row["image"]
    assert small["labels"] is row["labels"]


def test_shares_count_the_labels_of_each_block(pool):
    labels = demo_pool.unpack(pool[3])["labels"].long()[None]
    found = train_demo.shares(labels, 4)
    assert found.shape == (1, 29, SIZE[0] // 4, SIZE[1] // 4)
    for y, x in ((0, 0), (12, 10), (20, 12), (31, 23)):
        block = labels[0, 4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
        torch.testing.assert_close(found[0, :, y, x], torch.bincount(block.flatten(), minlength=29) / 16)


def test_crops_are_the_processors(pool):
    row = demo_pool.TrainingRows(pool, seed=0, stride=2)[4]
    processor = Sapiens2ImageProcessor(size=SIZE, do_rescale=False)
    expected = processor([row["image"]], boxes=[[row["box"].tolist()]], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(train_demo.normalised(row["crop"][None]), expected, rtol=0, atol=1e-4)


def test_a_photographed_foreground_still_composes(pool):
    row = demo_pool.unpack(pool[0])
    taken = demo_pool.photographed(row, np.random.default_rng(1))
    inside, outside = row["alpha"][0] == 1, row["alpha"][0] == 0
    assert inside.any()
    assert (taken["foreground"][:, outside] == 0).all()
    assert (taken["foreground"] - taken["image"])[:, inside].abs().mean() < 0.05
    assert not taken["image"].equal(row["image"])


def test_exports_load_as_any_checkpoint_and_are_small(trained):
    training, folder = trained
    frame = render(random_scene(0, SIZE)).image
    for task in train_demo.TASK_NAMES:
        path = folder / f"mannequin_{task}.safetensors"
        info = inspect(path)
        assert (info.task, info.layout, info.dtype) == (task, "original", torch.float16)
        assert info.config.image_height_width == SIZE
        assert info.config.num_key_value_heads_per_layer == [4, 2, 2, 4]
        estimator = Estimator.from_checkpoint(path, precision="fp32", device="cpu")
        assert list(estimator.predict([frame]))
        averaged = training.average.by_task[task].decode_head.predictor.weight
        torch.testing.assert_close(estimator.model.decode_head.predictor.weight, averaged.half().float())


def test_networks_of_the_default_shape_make_at_most_four_megabytes_each(tmp_path):
    training = train_demo.Training(train_demo.Shape(), 1e-3, seed=0)
    for path in training.export(tmp_path):
        assert path.stat().st_size <= 4e6, path.name
    heads = training.networks.by_task["pose"].config.num_key_value_heads_per_layer
    assert set(heads) == {heads[0], heads[0] // 2}  # it has a band of grouped queries


def test_a_resumed_run_goes_on_to_the_same_bits(trained, pool_folder, tmp_path, monkeypatch):
    straight, _ = trained
    arguments = ["--output", str(tmp_path), "--pool", str(pool_folder), *TINY]
    advance = train_demo.Training.advance

    def interrupted(self, *inputs):
        if self.step == 3:
            raise KeyboardInterrupt
        return advance(self, *inputs)

    with monkeypatch.context() as patch:
        patch.setattr(train_demo.Training, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_demo.main(arguments)
    resumed = train_demo.main([*arguments, "--resume"])
    assert resumed.step == straight.step == 4
    for name in ("networks", "average"):
        expected = getattr(straight, name).state_dict()
        for key, value in getattr(resumed, name).state_dict().items():
            assert value.equal(expected[key]), key


def test_a_run_may_begin_with_exported_networks(trained, pool_folder):
    straight, folder = trained
    shape = train_demo.Shape(SIZE, 16, 32, 64, 4, 1, head_width=16, stride=2)
    training = train_demo.Training(shape, 1e-3, seed=1)
    training.start_from(folder)
    for networks in (training.networks, training.average):
        expected = straight.average.state_dict()
        for key, value in networks.state_dict().items():
            assert value.equal(expected[key].half().float()), key


def test_every_loss_moves_its_own_head_and_the_backbone(trained, pool):
    training, _ = trained
    networks = training.networks
    rows = torch.utils.data.default_collate([demo_pool.TrainingRows(pool, seed=0, stride=2)[0]])
    outputs = networks(train_demo.normalised(rows["image"]), train_demo.normalised(rows["crop"]))
    found = train_demo.losses(outputs, rows, train_demo.class_weights(pool))
    assert set(found) == set(train_demo.TASK_NAMES) == set(train_demo.LOSS_WEIGHTS)
    shared = networks.by_task["pose"].model.embeddings.patch_embeddings.weight
    for task, loss in found.items():
        weights = [networks.by_task[other].decode_head.predictor.weight for other in train_demo.TASK_NAMES]
        grads = torch.autograd.grad(loss, [shared, *weights], retain_graph=True, allow_unused=True)
        assert grads[0].abs().max() > 0
        moved = [grad is not None and bool(grad.any()) for grad in grads[1:]]
        assert moved == [other == task for other in train_demo.TASK_NAMES]


def perfect(task: str, truth, factor: float = 1.0):
    """What a network would find that sees everything; depth and focal length ``factor`` times as large."""
    people = [
        PersonPose(truth.keypoints[number], torch.ones(308), tuple(truth.boxes[number].tolist()))
        for number in measures.visible_people(truth)
    ]
    return {
        "seg": truth.labels,
        "normal": truth.normals,
        "pointmap": FramePointmap(truth.points * factor, 1.0, truth.focal_length * factor),
        "pose": FramePose(tuple(people), *truth.labels.shape),
        "matting": FrameMatte(truth.alpha, truth.foreground),
        "albedo": truth.albedo,
    }[task]


@pytest.fixture(scope="module")
def truths():
    return [render(random_scene(seed, (96, 72))) for seed in range(4)]


@pytest.mark.parametrize("task", train_demo.TASK_NAMES)
def test_truth_reaches_every_bar(task, truths):
    values = measures.measure(task, [(perfect(task, truth), truth) for truth in truths])
    assert list(values) == [measure for measure in measures.MEASURES if measure.task == task]
    for measure, value in values.items():
        assert value == pytest.approx(1.0 if measure.is_better_above else 0.0, abs=0.05)  # acos near 1 is coarse
        assert measure.passes(value)


def test_depth_and_focal_length_are_measured_apart(truths):
    frames = [(perfect("pointmap", truth, 1.1), truth) for truth in truths]
    depth, depth_at_true_focal_length, focal_length = measures.measure("pointmap", frames).values()
    assert (depth, focal_length) == pytest.approx((0.1, 0.1))
    assert depth_at_true_focal_length == pytest.approx(0.0, abs=1e-6)


def test_missed_keypoints_and_swapped_parts_count(truths):
    people = [perfect("pose", truth) for truth in truths]
    moved = [
        FramePose(
            tuple(PersonPose(p.keypoints + torch.tensor([0, 0.06 * p.box[3]]), p.scores, p.box) for p in frame.people),
            frame.height,
            frame.width,
        )
        for frame in people
    ]
    assert list(measures.measure("pose", zip(moved, truths, strict=True)).values()) == [0.0]
    labels = torch.zeros(2, 4, dtype=torch.uint8)
    labels[1] = 6
    found = labels.clone()
    found[1, 2:] = 15  # half of the left hand is called the right
    ious = measures.part_ious([(found, SimpleNamespace(labels=labels))])
    assert ious == {0: 1.0, 6: 0.5}


def test_the_evaluation_prints_a_table_beside_the_bars(trained, capsys):
    _, folder = trained
    values = evaluate_demo.main([str(folder), "--scenes", "2"])
    assert list(values) == list(measures.MEASURES)
    printed = capsys.readouterr().out
    assert all(measure.name in printed for measure in measures.MEASURES)
    assert all(f"{row.bar:g}" in printed for row in measures.MEASURES if row.bar is not None)
    assert "not reached" in printed


def test_the_demo_command_writes_a_sheet_the_data_and_a_table(trained, tmp_path, capsys):
    words = ["demo", "--checkpoints", str(trained[1]), "--output", str(tmp_path / "demo"), "--scene", "3"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in measures.MEASURES)
    with Image.open(tmp_path / "demo" / "contact_sheet.png") as sheet:
        assert sheet.size[0] == 4 * 384
        assert len(sheet.convert("RGB").getcolors(10**7)) > 5000
    truth = np.load(tmp_path / "demo" / "mannequin_truth.npz")
    labels = np.load(tmp_path / "demo" / "mannequin_labels.npz")["labels"]
    assert truth["labels"].shape == labels.shape == (512, 384)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--scene", "10000"], "choose one from 0 to 9999"), (["--scene", "3"], "lacks mannequin_pose.safetensors")],
)
def test_what_the_demo_command_lacks_is_explained_before_anything_is_written(tmp_path, capsys, words, message):
    output = tmp_path / "demo"
    assert main(["demo", "--checkpoints", str(tmp_path), "--output", str(output), *words]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()
