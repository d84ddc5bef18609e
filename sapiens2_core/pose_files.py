"""Poses as files: OpenPose JSON, one file per frame, and COCO-style JSON with all 308 keypoints, one file per clip."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .files import write_json
from .keypoints import KEYPOINT_NAMES, SKELETON, VISIBLE_SCORE
from .openpose import NUM_JAW, to_openpose
from .openpose_in import from_openpose, read_openpose, write_openpose
from .results import FramePose, PersonPose, Pose


def _numbers(values: torch.Tensor) -> list[float]:
    """The shortest decimals that give the same float32 again."""
    return [float(str(value)) for value in values.reshape(-1).numpy()]


def to_coco(pose: Pose) -> dict[str, Any]:
    """A clip in the form of a COCO keypoint file, with nothing lost.

    ``images`` are the frames, by number; a frame without people stays. Each of ``annotations`` is one person in one
    frame: ``keypoints`` holds x, y, score of each keypoint, as in COCO's results, in pixels; ``bbox`` is x, y, width,
    height of where the person was looked for; ``score`` the mean of the scores. The category has the names, and the
    skeleton as pairs counted from 1, as COCO counts.
    """
    annotations = []
    for index, frame in enumerate(pose.frames):
        for person in frame.people:
            rows = torch.cat([person.keypoints, person.scores[:, None]], dim=1)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": index,
                    "category_id": 1,
                    "iscrowd": 0,
                    "bbox": [float(value) for value in person.box],
                    "area": float(person.box[2] * person.box[3]),
                    "score": float(person.scores.mean()),
                    "num_keypoints": int((person.scores > VISIBLE_SCORE).sum()),
                    "keypoints": _numbers(rows),
                }
            )
    return {
        "info": {"description": "People in the frames of one clip, by Sapiens2. Image ids are frame numbers."},
        "images": [
            {"id": index, "file_name": f"{index:06}", "width": frame.width, "height": frame.height}
            for index, frame in enumerate(pose.frames)
        ],
        "categories": [
            {
                "id": 1,
                "name": "person",
                "keypoints": list(KEYPOINT_NAMES),
                "skeleton": [[link.start + 1, link.end + 1] for link in SKELETON],
            }
        ],
        "annotations": annotations,
    }


def from_coco(data: Mapping[str, Any]) -> Pose:
    """The way back.

    Raises:
        ValueError: keypoints other than Sapiens2's 308.
    """
    (category, *_) = data.get("categories") or [{}]
    if tuple(category.get("keypoints", ())) != KEYPOINT_NAMES:
        raise ValueError(
            "This is a COCO file of other keypoints than Sapiens2's 308. "
            "Take one that Save Pose wrote, or OpenPose JSON."
        )
    people: dict[Any, list[PersonPose]] = {image["id"]: [] for image in data["images"]}
    for annotation in data["annotations"]:
        rows = torch.tensor(annotation["keypoints"], dtype=torch.float32).reshape(len(KEYPOINT_NAMES), 3)
        person = PersonPose(rows[:, :2].contiguous(), rows[:, 2].contiguous(), tuple(annotation["bbox"]))
        people[annotation["image_id"]].append(person)
    return Pose(
        tuple(FramePose(tuple(people[image["id"]]), image["height"], image["width"]) for image in data["images"])
    )


def save_coco(pose: Pose, target: Path) -> None:
    """Writes a clip as one COCO-style file."""
    write_json(target, to_coco(pose))


def to_openpose_files(pose: Pose) -> list[dict[str, Any]]:
    """What OpenPose's files hold of each frame: all scores as confidences, and the jaw that fits the visible face."""
    frames = to_openpose(pose, 0.0, real_confidence=True)
    for frame, sure in zip(frames, to_openpose(pose, VISIBLE_SCORE), strict=True):
        for person, sure_person in zip(frame["people"], sure["people"], strict=True):
            person["face_keypoints_2d"][: 3 * NUM_JAW] = sure_person["face_keypoints_2d"][: 3 * NUM_JAW]
    return [{"version": 1.3, **frame} for frame in frames]


def save_openpose(pose: Pose, folder: Path) -> None:
    """Writes a clip as OpenPose does: a new folder with one file per frame, with scores as confidences.

    Files are named 000000_keypoints.json and so on; each also says how large its frame is. The folder gets its name
    when all of it is written.
    """
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    temporary.mkdir()
    try:
        for index, frame in enumerate(to_openpose_files(pose)):
            write_json(temporary / f"{index:06}_keypoints.json", frame)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _by_number(path: Path) -> list[Any]:
    """Sort key: frame_10 comes after frame_9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # bytes that aren't text, or text that isn't JSON
        raise ValueError(f"{path.name} isn't a JSON file: {error}.") from error


def load_pose(path: Path, height: int = 0, width: int = 0) -> tuple[Pose, list[dict[str, Any]]]:
    """Reads a clip that :func:`save_coco`, :func:`save_openpose`, OpenPose, DWPose or a ComfyUI pack wrote.

    Args:
        path: a JSON file with one frame, a list of frames or a COCO-style clip; or a folder of files with a frame each.
        height: of the frames in pixels, where the file doesn't say it: OpenPose's own don't.
        width: likewise.

    Returns:
        The clip, and the same as POSE_KEYPOINT: of OpenPose files what they say, of the 308 keypoints those above
        :data:`~sapiens2_core.keypoints.VISIBLE_SCORE` with confidence 1.

    Raises:
        ValueError: something else, or sizes that nobody tells.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"), key=_by_number)
        if not files:
            raise ValueError(f"There is no .json file in the folder {path.name}.")
        data = [_read(file) for file in files]
    else:
        data = _read(path)
    if isinstance(data, Mapping) and "annotations" in data:
        pose = from_coco(data)
        return pose, to_openpose(pose, VISIBLE_SCORE)
    try:
        frames = read_openpose(data, height, width)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return from_openpose(frames), write_openpose(frames)
