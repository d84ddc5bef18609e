"""The Estimator: streaming, order, progress, cancellation, and what it refuses."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from sapiens2_core import Estimator, Sapiens2ImageProcessor
from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.precision import choose_dtype, cpu_computes_bf16
from sapiens2_core.tasks import TASKS


def estimator(task: str, seed: int = 0) -> Estimator:
    torch.manual_seed(seed)
    return Estimator(build(tiny_config(task), task).eval())


def frames(*sizes: tuple[int, int], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(3, height, width, generator=generator) for height, width in sizes]


def flatten(batches) -> list:
    return [result for batch in batches for result in batch]


def tensors_of(result) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [v for v in vars(result).values() if isinstance(v, Tensor)]


DENSE = [name for name in TASKS if name != "pose"]
SHAPES = {
    "seg": lambda h, w: [(h, w)],
    "normal": lambda h, w: [(3, h, w)],
    "albedo": lambda h, w: [(3, h, w)],
    "pointmap": lambda h, w: [(3, h, w)],
    "matting": lambda h, w: [(1, h, w), (3, h, w)],
    "pretrain": lambda h, w: [(32,), (32, 8, 6)],
}


@pytest.mark.parametrize("task", DENSE)
def test_results_have_the_frames_size_whatever_the_batch(task):
    sizes = [(90, 60), (60, 90), (128, 96), (33, 200), (90, 60)]
    one, many = estimator(task), estimator(task)

    singly = flatten(one.predict(frames(*sizes), batch_size=1))
    together = flatten(many.predict(frames(*sizes), batch_size=2))

    for size, a, b in zip(sizes, singly, together, strict=True):
        assert [tuple(t.shape) for t in tensors_of(a)] == SHAPES[task](*size)
        for x, y in zip(tensors_of(a), tensors_of(b), strict=True):
            if task == "seg":
                assert (x != y).float().mean() < 1e-3
            else:
                # A random scale near zero blows points up, so differences are told by their spread.
                torch.testing.assert_close(x, y, rtol=0, atol=1e-3 * x.std().item())


@pytest.mark.parametrize(
    ("task", "letterboxed"),
    [("seg", False), ("matting", False), ("normal", True), ("albedo", True), ("pointmap", True)],
)
@pytest.mark.parametrize("size", [(90, 200), (200, 90)], ids=["landscape", "portrait"])
def test_results_are_those_of_transformers_processor_and_the_network(task, letterboxed, size):
    runner = estimator(task)
    (frame,) = frames(size)
    found = flatten(runner.predict([frame]))[0]

    reference = transformers.Sapiens2ImageProcessor(
        size={"height": 128, "width": 96}, do_pad=letterboxed, do_rescale=False
    )
    pixel_values = reference(frame, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        outputs = runner.model(pixel_values)
    if task == "seg":
        (expected,) = reference.post_process_semantic_segmentation(outputs, target_sizes=[size])
        assert (found == expected).float().mean() > 0.999
    elif task == "matting":
        (expected,) = reference.post_process_image_matting(outputs, target_sizes=[size])
        torch.testing.assert_close(found.alpha, expected["alpha"], rtol=0, atol=1e-4)
        torch.testing.assert_close(found.foreground, expected["foreground"], rtol=0, atol=1e-4)
    elif task == "normal":
        (expected,) = reference.post_process_normal_estimation(outputs, source_sizes=[size])
        torch.testing.assert_close(found, F.normalize(expected["normals"], dim=0), rtol=0, atol=1e-3)
    elif task == "pointmap":
        (expected,) = reference.post_process_pointmap_estimation(outputs, source_sizes=[size])
        spread = expected["pointmap"].std().item()
        torch.testing.assert_close(found.points, expected["pointmap"], rtol=0, atol=1e-3 * spread)
    else:  # transformers has no albedo; its path for normals, but for their length, is the same
        outputs.normals = outputs.albedos
        expected = reference._post_process_maps(outputs.albedos, [size], None, None)[0].clamp(0, 1)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_a_processor_beside_the_checkpoint_is_used(tmp_path):
    build(tiny_config("normal"), "normal").save_pretrained(tmp_path)
    Sapiens2ImageProcessor(size=(64, 48), do_pad=False, image_mean=[0.5] * 3).save_pretrained(tmp_path)
    processor = Estimator.from_checkpoint(tmp_path, "fp32", "cpu").processor
    assert (processor.size, processor.do_pad) == ({"height": 64, "width": 48}, False)
    assert list(processor.image_mean) == [0.5] * 3
    assert not processor.do_rescale


def test_a_network_in_training_gives_the_same_twice():
    runner = Estimator(build(tiny_config("normal"), "normal").train())
    once, twice = flatten(runner.predict(frames((64, 48)) * 2))
    assert torch.equal(once, twice)


def test_a_batch_is_gone_before_the_next_is_made():
    alive = []

    def source():
        for number in range(5):
            gc.collect()
            assert sum(reference() is not None for reference in alive) <= 1, f"before frame {number}"
            frame = torch.rand(3, 64, 48)
            alive.append(weakref.ref(frame))
            yield frame
            del frame

    for results in estimator("normal").predict(source()):
        alive.append(weakref.ref(results[0]))
        del results


def test_frames_are_taken_one_batch_at_a_time_and_given_back_before_the_next():
    taken = []

    def source():
        for number, frame in enumerate(frames(*[(64, 48)] * 5)):
            taken.append(number)
            yield frame

    progress = []
    stream = estimator("normal").predict(source(), batch_size=2, on_progress=progress.append)
    seen = [(len(batch), list(taken)) for batch in stream]
    assert seen == [(2, [0, 1]), (2, [0, 1, 2, 3]), (1, [0, 1, 2, 3, 4])]
    assert progress == [2, 4, 5]


def out_of_memory_above(runner: Estimator, most: int, error: Exception | None = None) -> list[int]:
    """Makes the network fail as a device does for more than ``most`` at once; the sizes that come are noted."""
    sizes, forward = [], runner.model.forward
    error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def limited(pixel_values: Tensor, **more):
        sizes.append(len(pixel_values))
        if len(pixel_values) > most:
            raise error
        return forward(pixel_values, **more)

    runner.model.forward = limited
    return sizes


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_too_large_for_the_device_is_halved_until_it_fits(task, caplog):
    clip = frames(*[(64, 48)] * 12)
    # Each frame has a mask of its own, so that a part's are told from another's.
    masks = [torch.arange(48).expand(64, -1) > 4 * number for number in range(12)] if task == "pointmap" else None
    expected = flatten(estimator(task).predict(clip, batch_size=7, masks=masks))
    runner = estimator(task)
    sizes = out_of_memory_above(runner, most=2)

    with caplog.at_level("WARNING", "sapiens2"):
        results = flatten(runner.predict(clip, batch_size=7, masks=masks))

    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    what = "crops" if task == "pose" else "frames"
    assert [record.getMessage() for record in caplog.records] == [
        f"Out of memory with 7 {what} at once; going on with 3.",
        f"Out of memory with 3 {what} at once; going on with 1.",
    ]
    assert len(results) == 12
    for found, wanted in zip(results, expected, strict=True):
        if task == "pose":  # scores alone: a random network's highest points are hardly higher than others
            found, wanted = found.people[0].scores, wanted.people[0].scores
        for x, y in zip(tensors_of(found), tensors_of(wanted), strict=True):
            torch.testing.assert_close(x.float(), y.float(), rtol=1e-3, atol=1e-3 * y.float().std().item())


def test_a_flip_test_too_large_for_the_device_is_halved_too():
    clip = frames(*[(64, 48)] * 4)
    expected = flatten(estimator("pose").predict(clip, batch_size=4, flip_test=True))
    runner = estimator("pose")
    sizes = out_of_memory_above(runner, most=2)
    results = flatten(runner.predict(clip, batch_size=4, flip_test=True))
    assert sizes == [4, 2, 2, 2, 2]
    for found, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(found.people[0].scores, wanted.people[0].scores, rtol=1e-3, atol=1e-4)


def test_memory_too_small_for_one_frame_is_an_error_with_remedies():
    runner = estimator("normal")
    out_of_memory_above(runner, most=0)
    with pytest.raises(torch.OutOfMemoryError, match=r"precision bf16.*resolution.*batch size"):
        flatten(runner.predict(frames(*[(64, 48)] * 2), batch_size=2))


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "MPS backend out of memory (MPS allocated: 17.22 GB, other allocations: 1.02 GB, max allowed: 18.13 GB).",
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)",
        "[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried to allocate "
        "8589934592 bytes.",
    ],
)
def test_every_devices_way_to_say_it_halves_the_batch(message):
    runner = estimator("normal")
    sizes = out_of_memory_above(runner, most=1, error=RuntimeError(message))
    assert len(flatten(runner.predict(frames(*[(64, 48)] * 2), batch_size=2))) == 2
    assert sizes == [2, 1, 1]


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError])
def test_other_errors_of_the_network_are_not_tried_again(kind):
    runner, calls = estimator("normal"), []

    def broken(pixel_values: Tensor):
        calls.append(len(pixel_values))
        raise kind("broken")

    runner.model.forward = broken
    with pytest.raises(kind, match="broken"):
        flatten(runner.predict(frames(*[(64, 48)] * 2), batch_size=2))
    assert calls == [2]


def test_cancelling_stops_between_batches():
    class CancelledError(Exception):
        pass

    calls = []

    def check():
        calls.append(None)
        if len(calls) == 3:
            raise CancelledError

    done = []
    stream = estimator("normal").predict(frames(*[(64, 48)] * 5), check_cancelled=check)
    with pytest.raises(CancelledError):
        done.extend(stream)
    assert len(done) == 2


def test_normals_are_unit_vectors_after_the_resize():
    (normals,) = flatten(estimator("normal").predict(frames((300, 200))))
    torch.testing.assert_close(normals.norm(dim=0), torch.ones(300, 200))


def test_alpha_and_eight_bits_change_nothing():
    runner = estimator("normal")
    whole = torch.randint(0, 256, (3, 64, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with_alpha = torch.cat([whole, torch.zeros(1, 64, 48, dtype=torch.uint8)])
    plain, rgba, eight_bits = flatten(runner.predict([whole / 255, with_alpha / 255, whole]))
    assert torch.equal(plain, rgba)
    assert torch.equal(plain, eight_bits)


def test_pointmap_is_metric_and_knows_the_focal_length():
    runner = estimator("pointmap")
    frame = frames((256, 96))[0]
    (found,) = flatten(runner.predict([frame]))

    pixels = Sapiens2ImageProcessor(size={"height": 128, "width": 96}, do_pad=True, do_rescale=False)(
        frame, return_tensors="pt"
    )["pixel_values"]
    with torch.no_grad():
        outputs = runner.model(pixels)
    scale = outputs.scales.item()
    # 256 × 96 shrinks to half, 48 columns wide in the middle of 96.
    expected = F.interpolate(outputs.pointmaps[:, :, :, 24:72] / scale, size=(256, 96), mode="bilinear")[0]

    assert found.scale == pytest.approx(scale)
    assert found.focal_length == pytest.approx(96 / scale / 0.5)
    torch.testing.assert_close(found.points, expected, rtol=1e-4, atol=1e-4 * expected.std().item())


class TestPose:
    def test_people_of_all_frames_share_batches_and_come_back_in_order(self):
        runner = estimator("pose")
        clip = frames(*[(120, 160)] * 4)
        boxes = [
            [(10.0, 5.0, 60.0, 100.0), (80.0, 10.0, 50.0, 90.0), (0.0, 0.0, 30.0, 40.0)],
            [],
            [(20.0, 20.0, 70.0, 90.0)],
            [(30.0, 8.0, 50.0, 70.0), (90.0, 30.0, 40.0, 80.0)],
        ]
        sizes = []
        forward = runner.model.forward
        runner.model.forward = lambda pixels, **more: sizes.append(len(pixels)) or forward(pixels, **more)

        together = flatten(runner.predict(clip, boxes, batch_size=4))
        assert sizes == [4, 2]
        singly = flatten(runner.predict(clip, boxes, batch_size=1))

        assert [len(frame.people) for frame in together] == [3, 0, 1, 2]
        assert [(frame.height, frame.width) for frame in together] == [(120, 160)] * 4
        for frame, other, frame_boxes in zip(together, singly, boxes, strict=True):
            for person, same, box in zip(frame.people, other.people, frame_boxes, strict=True):
                assert person.box == same.box == box
                assert person.keypoints.shape == (308, 2)
                torch.testing.assert_close(person.scores, same.scores, rtol=1e-3, atol=1e-4)

    def test_frames_without_people_do_not_pile_up_behind_one_with_a_person(self):
        taken = []

        def source():
            for number, frame in enumerate(frames(*[(64, 48)] * 12)):
                taken.append(number)
                yield frame

        boxes = [[(5.0, 5.0, 30.0, 50.0)], *[[]] * 11]
        stream = estimator("pose").predict(source(), boxes, batch_size=4)
        assert len(next(stream)) == 4
        assert taken == [0, 1, 2, 3]
        assert [len(frame.people) for frame in flatten(stream)] == [0] * 8

    def test_whole_frame_is_the_box_that_the_authors_take(self):
        runner = estimator("pose")
        clip = frames((120, 160))
        (default,) = flatten(runner.predict(clip))
        (explicit,) = flatten(runner.predict(clip, [[(0.0, 0.0, 159.0, 119.0)]]))
        assert default.people[0].box == (0.0, 0.0, 159.0, 119.0)
        assert torch.equal(default.people[0].keypoints, explicit.people[0].keypoints)

    def test_flip_test_makes_the_result_mirror_symmetric(self):
        """Averaged heatmaps of an image and its mirror are each other's mirror, so scores swap exactly."""
        runner = estimator("pose")
        image = frames((127, 95))[0]
        # The whole-frame box of a mirrored image is the mirrored box, so both see mirrored crops.
        plain, mirrored = flatten(runner.predict([image, image.flip(-1)], flip_test=True))
        order = torch.arange(308)
        left, right = torch.tensor(runner.model.config.flip_pairs).unbind(-1)
        order[left], order[right] = right, left
        torch.testing.assert_close(plain.people[0].scores[order], mirrored.people[0].scores, rtol=1e-4, atol=1e-5)
        (unaveraged,) = flatten(runner.predict([image]))
        assert (unaveraged.people[0].scores - plain.people[0].scores).abs().max() > 1e-3

    @pytest.mark.parametrize(
        ("box", "words"),
        [
            ((10.0, 10.0, 0.0, 20.0), "frame 1 has no area"),
            ((10.0, 10.0, 20.0, -3.0), "frame 1 has no area"),
            ((10.0, math.nan, 20.0, 20.0), "frame 1 holds a number that is not finite"),
            ((500.0, 10.0, 20.0, 20.0), "frame 1.*outside"),
            ((-50.0, 10.0, 20.0, 20.0), "frame 1.*outside"),
        ],
    )
    def test_box_that_holds_nobody_is_an_error_that_names_it(self, box, words):
        with pytest.raises(ValueError, match=words):
            flatten(estimator("pose").predict(frames((64, 48), (64, 48)), [[(0.0, 0.0, 40.0, 60.0)], [box]]))

    @pytest.mark.parametrize("count", [1, 3])
    def test_as_many_box_lists_as_frames_are_needed(self, count):
        with pytest.raises(ValueError, match="only, but more"):
            flatten(estimator("pose").predict(frames((64, 48), (64, 48)), [[(0.0, 0.0, 40.0, 60.0)]] * count))


def test_boxes_are_refused_where_they_mean_nothing():
    with pytest.raises(ValueError, match="Boxes are for pose; this checkpoint estimates normals"):
        flatten(estimator("normal").predict(frames((64, 48)), [[(0.0, 0.0, 10.0, 10.0)]]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("task", ["normal", "pose"])
def test_pixels_that_are_no_numbers_are_named(task, bad):
    clip = frames((64, 48), (64, 48))
    clip[1][0, 3, 5] = bad
    with pytest.raises(ValueError, match="Frame 1 holds pixels that are not numbers"):
        flatten(estimator(task).predict(clip))


@pytest.mark.parametrize("shape", [(64, 48), (2, 64, 48), (3, 0, 48), (1, 3, 64, 48)])
def test_frame_of_another_shape_is_named(shape):
    with pytest.raises(ValueError, match="Frame 0 has shape"):
        flatten(estimator("normal").predict([torch.zeros(shape)]))


@pytest.mark.parametrize(
    "frame", [torch.zeros(3, 8, 8, dtype=torch.int32), torch.zeros(3, 8, 8, dtype=torch.bool), "photo.jpg"]
)
def test_frame_of_another_type_is_named(frame):
    with pytest.raises(ValueError, match="Frame 0 is"):
        flatten(estimator("normal").predict([frame]))


def test_fewer_masks_than_frames_are_named():
    with pytest.raises(ValueError, match="masks for 1 frames only"):
        flatten(estimator("pointmap").predict(frames((64, 48), (64, 48)), masks=[torch.ones(64, 48, dtype=torch.bool)]))


@pytest.mark.parametrize(("dtype", "advice"), [(torch.bfloat16, "precision fp32"), (torch.float32, "damaged")])
def test_result_that_is_not_finite_is_an_error_never_a_black_picture(dtype, advice):
    runner = estimator("normal")
    runner.model.decode_head.predictor.bias.data.fill_(math.inf)
    runner = Estimator(runner.model.to(dtype))
    with pytest.raises(RuntimeError, match=advice):
        flatten(runner.predict(frames((64, 48))))


def test_checkpoint_of_another_task_is_refused_in_the_users_words():
    with pytest.raises(ValueError, match="This checkpoint estimates normals; connect one that estimates pose"):
        estimator("normal").require("pose")
    estimator("normal").require("normal")


def test_pose_checkpoint_of_other_keypoints_is_refused_where_sapiens2s_are_needed():
    runner = Estimator(build(tiny_config("pose").replaced(num_labels=17), "pose"))
    with pytest.raises(ValueError, match="has 17 keypoints; Sapiens2's 308 are needed here"):
        runner.require("pose")


def test_half_precision_stays_close_to_fp32():
    single = flatten(estimator("normal").predict(frames((128, 96))))[0]
    runner = estimator("normal")
    half = flatten(Estimator(runner.model.to(torch.bfloat16)).predict(frames((128, 96))))[0]
    assert half.dtype == torch.float32
    assert (single * half).sum(dim=0).mean() > 0.99  # cosine of the angle between them


def test_precision_auto_avoids_emulation(monkeypatch):
    cpu = torch.device("cpu")
    assert choose_dtype(cpu) == (torch.bfloat16 if cpu_computes_bf16() else torch.float32)
    for question in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, question, lambda: False, raising=False)
    assert choose_dtype(cpu) is torch.float32
    assert choose_dtype(torch.device("mps")) is torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    assert choose_dtype(torch.device("cuda")) is torch.float16
    assert choose_dtype(cpu, "fp16") is torch.float16
    with pytest.raises(ValueError, match="no precision"):
        choose_dtype(cpu, "fp64")
