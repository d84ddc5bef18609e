import json
import logging
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from sapiens2_core.__main__ import main
from sapiens2_core.body_parts import PALETTE
from sapiens2_core.keypoints import KEYPOINT_NAMES
from sapiens2_core.tasks import TASKS

PHOTO = Path(__file__).parents[1] / "assets" / "astronaut.jpg"
FILES = {
    "pose": {"pose.png", "openpose.png", "pose.json"},
    "seg": {"parts.png", "labels.png", "labels.npz"},
    "normal": {"normal.png", "normal.npz"},
    "pointmap": {"depth.png", "depth_mm.png", "pointmap.npz"},
    "matting": {"cutout.png", "alpha.png", "matte.npz"},
    "albedo": {"albedo.png", "albedo.npz"},
    "pretrain": {"features.png", "features.npz"},
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Tiny checkpoints with random weights, by task."""
    folder = tmp_path_factory.mktemp("checkpoints")
    paths = {task: folder / f"tiny_{task}.safetensors" for task in TASKS}
    for task, path in paths.items():
        assert main(["make-random", "--task", task, "--size", "tiny", "--output", str(path)]) == 0
    return paths


@pytest.fixture
def photo(tmp_path):
    """A quarter of the photo's size, not square."""
    path = tmp_path / "photos" / "person.jpg"
    path.parent.mkdir()
    with Image.open(PHOTO) as image:
        image.crop((80, 0, 400, 512)).resize((80, 128)).save(path)
    return path


def predict(checkpoint, photo, output, *more):
    arguments = ["--checkpoint", checkpoint, "--input", photo, "--output", output, "--precision", "fp32", *more]
    return main(["predict", *map(str, arguments), "--device", "cpu"])


def run(checkpoints, task, photo, tmp_path, *more):
    assert predict(checkpoints[task], photo, tmp_path / "out", *more) == 0
    return {path.name.removeprefix("person_"): path for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_writes_a_picture_of_the_photos_size_and_its_data(checkpoints, photo, tmp_path, task):
    found = run(checkpoints, task, photo, tmp_path)
    assert set(found) == FILES[task]
    for path in found.values():
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.size == (80, 128)
        if path.suffix == ".npz":
            with np.load(path) as data:
                assert all(np.isfinite(array).all() for array in data.values())


def test_normals_are_unit_vectors_and_their_picture_is_opengl(checkpoints, photo, tmp_path):
    found = run(checkpoints, "normal", photo, tmp_path)
    with np.load(found["normal.npz"]) as data:
        normals = data["normals"]
    assert normals.shape == (128, 80, 3)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, atol=1e-5)
    with Image.open(found["normal.png"]) as image:
        np.testing.assert_allclose(np.array(image), (normals + 1) / 2 * 255, atol=0.51)


def test_pointmap_files_agree_on_depth(checkpoints, photo, tmp_path):
    found = run(checkpoints, "pointmap", photo, tmp_path)
    with np.load(found["pointmap.npz"]) as data:
        points, intrinsics, scale = data["points"], data["intrinsics"], float(data["scale"])
    assert points.shape == (128, 80, 3)
    assert intrinsics[0, 2] == 39.5
    assert intrinsics[0, 0] == pytest.approx(96 / scale, rel=1e-5)  # the photo has the network's native height
    millimetres = cv2.imread(str(found["depth_mm.png"]), cv2.IMREAD_UNCHANGED)
    np.testing.assert_allclose(millimetres, (points[..., 2] * 1000).clip(0, 65535), atol=0.51)


def test_labels_agree_in_both_files(checkpoints, photo, tmp_path):
    found = run(checkpoints, "seg", photo, tmp_path)
    with np.load(found["labels.npz"]) as data, Image.open(found["labels.png"]) as image:
        assert np.array_equal(np.array(image), data["labels"])
        seen = np.array(image.convert("RGB"))
        assert np.array_equal(seen, PALETTE.numpy()[data["labels"]])
        assert data["labels"].max() <= 28


def test_cutout_is_straight_colour_with_the_alpha_that_lies_beside_it(checkpoints, photo, tmp_path):
    found = run(checkpoints, "matting", photo, tmp_path)
    with np.load(found["matte.npz"]) as data, Image.open(found["cutout.png"]) as image:
        pixels = np.array(image)
        np.testing.assert_allclose(pixels[..., 3], data["alpha"] * 255, atol=0.51)
        straight = (data["foreground_premultiplied"] / data["alpha"][..., None]).clip(0, 1)
    np.testing.assert_allclose(pixels[..., :3], straight * 255, atol=0.51)


def test_pose_json_has_openpose_people_and_all_308_keypoints(checkpoints, photo, tmp_path):
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps([[0, 0, 40, 100], {"x": 30, "y": 10, "width": 45, "height": 110}]))
    found = run(checkpoints, "pose", photo, tmp_path, "--boxes", boxes)
    data = json.loads(found["pose.json"].read_text())
    assert (data["canvas_width"], data["canvas_height"]) == (80, 128)
    assert len(data["people"]) == 2
    assert len(data["people"][0]["pose_keypoints_2d"]) == 54
    assert [person["box"] for person in data["people_308"]] == [[0, 0, 40, 100], [30, 10, 45, 110]]
    assert [point["name"] for point in data["people_308"][1]["keypoints"]] == list(KEYPOINT_NAMES)


def test_folder_of_photos_of_different_sizes(checkpoints, photo, tmp_path):
    with Image.open(photo) as image:
        image.resize((50, 40)).save(photo.with_name("small.png"))
    assert predict(checkpoints["normal"], photo.parent, tmp_path / "out", "--batch-size", 2) == 0
    sizes = {}
    for path in (tmp_path / "out").glob("*.png"):
        with Image.open(path) as image:
            sizes[path.name] = image.size
    assert sizes == {"person_normal.png": (80, 128), "small_normal.png": (50, 40)}


def test_boxes_of_a_folder_go_by_file_name_and_may_be_nobody(checkpoints, photo, tmp_path):
    with Image.open(photo) as image:
        image.save(photo.with_name("empty.png"))
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps({"person.jpg": [[0, 0, 40, 100]], "empty.png": []}))
    assert predict(checkpoints["pose"], photo.parent, tmp_path / "out", "--boxes", boxes) == 0
    counts = {p.name: len(json.loads(p.read_text())["people"]) for p in (tmp_path / "out").glob("*.json")}
    assert counts == {"person_pose.json": 1, "empty_pose.json": 0}


def error_of(capsys, code):
    """The one line that a wrong call says."""
    assert code == 2
    text = capsys.readouterr().err.strip().splitlines()[-1]
    assert text.startswith("Error: ")
    return text


def test_unreadable_photo_in_a_folder_is_named_before_anything_is_written(checkpoints, photo, tmp_path, capsys):
    photo.with_name("zzz.jpg").write_text("not a photo")
    code = predict(checkpoints["normal"], photo.parent, tmp_path / "out")
    assert "Can't be read as photos: zzz.jpg" in error_of(capsys, code)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"other.jpg": []}', "no list of boxes for person.jpg"),
        ("[[1, 2, 3]]", "a box is [x, y, width, height]"),
        ("[[0, 0, 0, 5]]", "has no area"),
        ("7", "must hold a list of boxes"),
    ],
)
def test_wrong_boxes_are_one_sentence(checkpoints, photo, tmp_path, capsys, text, message):
    boxes = tmp_path / "boxes.json"
    boxes.write_text(text)
    assert message in error_of(capsys, predict(checkpoints["pose"], photo, tmp_path / "out", "--boxes", boxes))


def test_other_wrong_input_is_one_sentence(checkpoints, photo, tmp_path, capsys):
    out = tmp_path / "out"
    garbage = tmp_path / "garbage.safetensors"
    garbage.write_bytes(b"\xff" * 100)
    boxes = tmp_path / "boxes.json"
    boxes.write_text("[]")
    normal = checkpoints["normal"]
    assert "garbage.safetensors" in error_of(capsys, predict(garbage, photo, out))
    assert "gone.safetensors" in error_of(capsys, predict(tmp_path / "gone.safetensors", photo, out))
    assert "gone.jpg" in error_of(capsys, predict(normal, tmp_path / "gone.jpg", out))
    assert "estimates normals" in error_of(capsys, predict(normal, photo, out, "--boxes", boxes))
    assert "where the photos are" in error_of(capsys, predict(normal, photo.parent, photo.parent))
    code = main(
        ["predict", "--checkpoint", str(normal), "--input", str(photo), "--output", str(out), "--device", "abc"]
    )
    assert '"abc" can\'t be used' in error_of(capsys, code)
    code = main(["make-random", "--task", "pose", "--output", str(tmp_path / "a.ckpt")])
    assert "must end in .safetensors" in error_of(capsys, code)
    code = main(["make-random", "--task", "pose", "--size", "1b-4k", "--output", str(tmp_path / "a.safetensors")])
    assert "for the task pretrain only" in error_of(capsys, code)


@pytest.mark.parametrize("task", TASKS)
def test_inspect_says_what_a_checkpoint_is(checkpoints, capsys, task):
    capsys.readouterr()
    assert main(["inspect", str(checkpoints[task])]) == 0
    text = capsys.readouterr().out
    assert TASKS[task].does in text
    assert "fp32" in text
    assert "96 × 128 pixels" in text
    assert "the authors' names" in text


def test_random_checkpoint_says_that_it_means_nothing_and_repeats_with_its_seed(tmp_path, capsys):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        path = tmp_path / f"{name}.safetensors"
        assert main(["make-random", "--task", "normal", "--output", str(path), "--seed", str(seed)]) == 0
    said = capsys.readouterr().out
    assert "RANDOM weights" in said
    assert "means nothing" in said
    a, b, c = (load_file(tmp_path / f"{name}.safetensors") for name in "abc")
    assert all(torch.equal(value, b[name]) for name, value in a.items())
    name = "decode_head.conv_normal.weight"
    assert not torch.equal(a[name], c[name])


def test_verbose_shows_where_an_error_came_from(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="sapiens2")
    main(["--verbose", "inspect", str(tmp_path / "gone.safetensors")])
    assert any(record.exc_info for record in caplog.records)


def test_box_that_lies_outside_of_its_photo_is_named_before_anything_is_written(checkpoints, photo, tmp_path, capsys):
    boxes = tmp_path / "boxes.json"
    boxes.write_text(json.dumps([[500, 0, 40, 100]]))
    code = predict(checkpoints["pose"], photo, tmp_path / "out", "--boxes", boxes)
    assert "A box of person.jpg" in error_of(capsys, code)
    assert not (tmp_path / "out").exists()


def test_output_that_is_a_file_is_a_sentence(checkpoints, photo, tmp_path, capsys):
    (tmp_path / "out").touch()
    code = predict(checkpoints["normal"], photo, tmp_path / "out")
    assert "can't be made a folder to write to" in error_of(capsys, code)


def test_batch_size_below_one_is_refused_at_once(checkpoints, photo, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        predict(checkpoints["normal"], photo, tmp_path / "out", "--batch-size", 0)
    assert ended.value.code == 2
    assert "argument --batch-size: 0 is less than 1" in capsys.readouterr().err


def test_written_checkpoint_has_the_rights_of_any_new_file(checkpoints, tmp_path):
    (tmp_path / "plain").touch()
    assert checkpoints["normal"].stat().st_mode == (tmp_path / "plain").stat().st_mode
