"""What the pack does with ComfyUI itself: files, memory, progress, cancellation, errors."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

CATALOGUE_NAME = "facebook/sapiens2-normal-0.4b"
#: The first of the list that is not on this machine.
FIRST_TO_DOWNLOAD = "facebook/sapiens2-pose-0.8b"


def normals_graph(
    checkpoint: str, frames: int = 3, precision: str = "fp32", batch_size: int = 1, compiled: bool = False
) -> dict:
    load = {"checkpoint": checkpoint, "precision": precision, "compile": compiled}
    return {
        "load": {"class_type": "Sapiens2LoadModel", "inputs": load},
        "photo": {"class_type": "LoadImage", "inputs": {"image": "frame0.png"}},
        "clip": {"class_type": "RepeatImageBatch", "inputs": {"image": ["photo", 0], "amount": frames}},
        "normals": {
            "class_type": "Sapiens2EstimateNormals",
            "inputs": {
                "estimator": ["load", 0],
                "image": ["clip", 0],
                "convention": "opengl",
                "background": "keep",
                "batch_size": batch_size,
            },
        },
        "show": {"class_type": "PreviewImage", "inputs": {"images": ["normals", 0]}},
        "info": {"class_type": "PreviewAny", "inputs": {"source": ["load", 1]}},
    }


def checkpoint_values(comfy) -> list[str]:
    node = comfy.json("/object_info/Sapiens2LoadModel")["Sapiens2LoadModel"]
    return node["input"]["required"]["checkpoint"][1]["options"]


def test_checkpoint_list_has_official_names_once_and_other_files_by_path(comfy):
    values = checkpoint_values(comfy)
    assert len(values) == len(set(values))
    local = values[: values.index(FIRST_TO_DOWNLOAD)]
    assert {CATALOGUE_NAME, "facebook/sapiens2-pointmap-0.4b", "folder/tiny", "sub/other_seg.safetensors"} <= set(local)
    assert {"saved/albedo", "elsewhere_normal.safetensors"} <= set(local)  # from extra_model_paths.yaml
    assert "facebook/sapiens2-normal-5b" in values  # not on this machine, but a graph may name it
    assert not any("\\" in value or "sapiens2_0.4b" in value or "model.safetensors" in value for value in values)


def test_official_weights_are_told_from_a_fine_tune_and_odd_files_are_listed_by_their_path(comfy):
    values = checkpoint_values(comfy)
    local = values[: values.index(FIRST_TO_DOWNLOAD)]
    assert "facebook/sapiens2-seg-0.8b" in local
    assert "odd/renamed.safetensors" not in local
    odd = ["twelve_classes.safetensors", "no_labels.safetensors", "config_of_nothing"]
    odd += ["two_in_one/first.safetensors", "two_in_one/second.safetensors", "one_and_more"]
    assert {f"odd/{name}" for name in odd} <= set(local)
    assert "odd/dangling.safetensors" not in values


def test_files_of_another_pack_in_the_second_models_folder_stay_listed(comfy):
    assert "notes.txt" in comfy.json("/models/sapiens")
    assert "notes.txt" not in checkpoint_values(comfy)


def test_folders_that_only_extra_model_paths_names_load(comfy):
    graph = normals_graph("saved/albedo")
    graph = {"load": graph["load"], "info": graph["info"]}
    info = comfy.run(graph)["info"]["text"][0]
    assert f"file: {comfy.base / 'elsewhere' / 'people' / 'saved' / 'albedo'}" in info
    assert len(comfy.run(normals_graph("elsewhere_normal.safetensors"))["show"]["images"]) == 3


def asked_memory(comfy, boxes: int, batch_size: int, frames: int = 1) -> int:
    """Bytes that the pose node asked ComfyUI to keep free for that many boxes in each frame."""
    graph = normals_graph("tiny_pose.safetensors", frames)
    graph = {name: graph[name] for name in ("load", "photo", "clip")}
    people = {"class_type": "ManyBoxes", "inputs": {"count": boxes}}
    options = {"flip_test": False, "score_threshold": 0.3, "confidence": "real", "batch_size": batch_size}
    inputs = {"estimator": ["load", 0], "image": ["clip", 0], "boxes": ["people", 0], **options}
    graph |= {
        "people": people,
        "pose": {"class_type": "Sapiens2EstimatePose", "inputs": inputs},
        "asked": {"class_type": "MemoryAsked", "inputs": {"after": ["pose", 0]}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["asked", 0]}},
    }
    return int(comfy.run(graph)["show"]["text"][0])


def test_memory_is_asked_for_as_many_people_as_go_through_at_once(comfy):
    one = asked_memory(comfy, boxes=1, batch_size=1)
    assert one > 0
    assert asked_memory(comfy, boxes=6, batch_size=4) == 4 * one  # one frame, but four crops of it
    assert asked_memory(comfy, boxes=3, batch_size=8) == 3 * one
    assert asked_memory(comfy, boxes=2, batch_size=8, frames=3) == 6 * one


@pytest.mark.parametrize(("precision", "shared"), [("fp32", True), ("bf16", False)])
def test_a_second_node_that_loads_the_same_file_shares_its_weights(comfy, precision, shared):
    # By its other name: ComfyUI itself takes two nodes with equal inputs for one.
    names = {"one": (CATALOGUE_NAME, "fp32"), "two": ("official/sapiens2_0.4b_normal.safetensors", precision)}
    graph = {
        node: {"class_type": "Sapiens2LoadModel", "inputs": {"checkpoint": name, "precision": value}}
        for node, (name, value) in names.items()
    }
    graph |= {
        "compare": {"class_type": "WeightsShared", "inputs": {"first": ["one", 0], "second": ["two", 0]}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["compare", 0]}},
    }
    same, count = comfy.run(graph)["show"]["text"][0].split(" of ")
    assert int(count) > 100
    assert same == (count if shared else "0")


def test_toy_networks_come_last_and_say_what_they_are(comfy):
    values = checkpoint_values(comfy)
    toys = [f"demo/mannequin_{task}" for task in ("pose", "seg", "normal", "pointmap", "matting", "albedo")]
    assert values[-6:] == toys
    graph = normals_graph("demo/mannequin_normal")
    info = comfy.run({"load": graph["load"], "info": graph["info"]})["info"]["text"][0]
    assert "checkpoint: demo/mannequin_normal" in info
    assert "a toy network that knows drawn mannequins alone: not Sapiens2's weights" in info
    assert "native input: 144 × 192" in info


@pytest.mark.parametrize("name", ["folder/tiny", "sub/other_seg.safetensors"])
def test_folders_and_the_second_models_folder_load(comfy, name):
    graph = normals_graph(name)
    graph = {"load": graph["load"], "info": graph["info"]}
    info = comfy.run(graph)["info"]["text"][0]
    assert f"checkpoint: {name}" in info
    assert "task: seg (segments body parts)" in info
    assert "native input: 96 × 128" in info
    assert "computes in: float32 on cpu" in info


def test_a_file_s_path_stays_good_beside_its_catalogue_name(comfy):
    outputs = [comfy.run(normals_graph(name))["show"] for name in
               (CATALOGUE_NAME, "official/sapiens2_0.4b_normal.safetensors", "tiny_normal.safetensors")]  # fmt: skip
    pictures = [np.stack(comfy.pictures(output)) for output in outputs]
    assert np.array_equal(pictures[0], pictures[1])
    assert np.array_equal(pictures[0], pictures[2])


@pytest.mark.parametrize(("precision", "most"), [("bf16", 8), ("fp8 weights", 24)])
def test_lower_precision_gives_nearly_the_same_normals(comfy, precision, most):
    exact, lower = (
        np.stack(comfy.pictures(comfy.run(normals_graph("tiny_normal.safetensors", precision=chosen))["show"]))
        for chosen in ("fp32", precision)
    )
    difference = np.abs(exact.astype(int) - lower)
    assert difference.any()
    assert np.median(difference) <= most


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_network_gives_the_same_normals(comfy):
    outputs = [
        comfy.run(normals_graph("tiny_normal.safetensors", frames=1, compiled=compiled)) for compiled in (False, True)
    ]
    assert "float32 on cpu, compiled" in outputs[1]["info"]["text"][0]
    plain, compiled = (np.stack(comfy.pictures(output["show"])).astype(int) for output in outputs)
    assert np.abs(plain - compiled).max() <= 1


def test_result_is_the_same_after_comfyui_unloaded_the_models(comfy):
    before = comfy.pictures(comfy.run(normals_graph("tiny_normal.safetensors", frames=1))["show"])
    comfy.request("/free", {"unload_models": True, "free_memory": True})
    time.sleep(1)
    after = comfy.pictures(comfy.run(normals_graph("tiny_normal.safetensors", frames=1))["show"])
    assert np.array_equal(before, after)


def test_unknown_checkpoint_is_refused_with_a_sentence_on_the_load_node(comfy):
    with pytest.raises(comfy.GraphError, match=r'no checkpoint "nowhere\.safetensors" in .*sapiens2') as failed:
        comfy.run(normals_graph("nowhere.safetensors"))
    assert failed.value.node == "load"


@pytest.mark.parametrize("name", ["../../input/frame0.png", "/etc/passwd", "../sapiens/sub/other_seg.safetensors"])
def test_paths_out_of_the_models_folders_are_refused(comfy, name):
    with pytest.raises(comfy.GraphError, match="There is no checkpoint") as failed:
        comfy.run(normals_graph(name))
    assert failed.value.node == "load"


def test_broken_file_fails_on_the_load_node(comfy):
    with pytest.raises(comfy.GraphError, match=r"broken\.safetensors is not a readable") as failed:
        comfy.run(normals_graph("broken.safetensors"))
    assert failed.value.node == "load"


@pytest.mark.parametrize("task", ["pose", "pretrain"])
def test_checkpoint_of_another_task_fails_on_the_estimating_node_and_names_both(comfy, task):
    does = {"pose": "estimates pose", "pretrain": "extracts features"}[task]
    with pytest.raises(comfy.GraphError, match=f"{does}.*estimates normals") as failed:
        comfy.run(normals_graph(f"tiny_{task}.safetensors"))
    assert failed.value.node == "normals"


def test_replaced_file_is_loaded_again(comfy):
    path = comfy.base / "models" / "sapiens2" / "replaced.safetensors"
    normal, albedo = (path.with_name(f"tiny_{task}.safetensors").read_bytes() for task in ("normal", "albedo"))
    path.write_bytes(normal)
    comfy.run(normals_graph(path.name))
    path.write_bytes(albedo)
    with pytest.raises(comfy.GraphError, match="estimates albedo"):
        comfy.run(normals_graph(path.name))


def test_progress_moves_per_batch_on_the_estimating_node(comfy):
    events = comfy.events()
    comfy.run(normals_graph("tiny_normal.safetensors", frames=7, batch_size=3))
    events.close()
    shown = [(data["value"], data["max"]) for data in events.of("progress") if data["node"] == "normals"]
    assert shown[0] == (3, 7)
    assert shown[-1] == (7, 7)
    assert shown == sorted(shown)


def test_cancel_stops_a_long_clip_between_batches(comfy):
    frames = 3000
    events = comfy.events()
    prompt = comfy.queue(normals_graph("tiny_normal.safetensors", frames=frames))
    events.wait_for("progress", "normals")
    comfy.request("/interrupt", {})
    asked = time.monotonic()
    with pytest.raises(comfy.GraphError, match="interrupted") as failed:
        comfy.wait(prompt)
    assert time.monotonic() - asked < 10
    events.close()
    assert failed.value.node == "normals"
    done = max(data["value"] for data in events.of("progress") if data["node"] == "normals")
    assert done < frames / 2
    assert len(comfy.pictures(comfy.run(normals_graph("tiny_normal.safetensors", frames=2))["show"])) == 2
