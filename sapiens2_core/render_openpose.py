"""Skeletons as the OpenPose and DWPose annotators draw them: the pictures that OpenPose ControlNets were trained on.

Sizes are those of an annotator that works on a canvas whose shorter side has 512 pixels, and grow with the canvas:
sticks are filled ellipses 9 pixels wide at 60 % of their colour, joints full-coloured discs of radius 4, fingers lines
of 2 pixels in rainbow hues with blue discs of radius 4, the face white dots of radius 3. As there, a shape is laid on
whole pixels; it covers the pixels that the annotators' shape covers, but its edge is smooth.

ComfyUI's own node, SDPose Draw Keypoints, draws by nearly the same rules. What differs:

* its sticks have their full colour (``stick_brightness`` 1 here); the annotators' have 60 %;
* its sizes are in pixels whatever the canvas (the same as here where the shorter side has 512 pixels);
* its edges are hard;
* a keypoint is drawn when its score is above the threshold; there, when it is not below;
* a finger that leaves the frame is drawn up to its edge; there, not at all;
* from Sapiens2's keypoints the jaw is drawn, fitted to the face: in the form that the other node reads, the jaw has
  no confidence.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .keypoints import VISIBLE_SCORE
from .openpose_in import Floats, OpenPoseFrame, OpenPosePerson
from .pose_parts import ALL_PARTS, Parts, keep_openpose_parts
from .render import to_uint8

Color = tuple[int, int, int]

#: RGB of the 18 joints; of the sticks, the first 17.
_COLORS: tuple[Color, ...] = (
    (255, 0, 0), (255, 85, 0), (255, 170, 0), (255, 255, 0), (170, 255, 0), (85, 255, 0), (0, 255, 0), (0, 255, 85),
    (0, 255, 170), (0, 255, 255), (0, 170, 255), (0, 85, 255), (0, 0, 255), (85, 0, 255), (170, 0, 255),
    (255, 0, 255), (255, 0, 170), (255, 0, 85),
)  # fmt: skip

#: Pairs of the 18 body points, in the order of their colours.
_STICKS = (
    (1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11), (11, 12), (12, 13),
    (1, 0), (0, 14), (14, 16), (0, 15), (15, 17),
)  # fmt: skip

_FINGERS = tuple((0 if joint == 0 else first + joint - 1, first + joint) for first in range(1, 21, 4)
                 for joint in range(4))  # fmt: skip
_FINGER_COLORS: tuple[Color, ...] = tuple(
    tuple(int(channel * 255) for channel in colorsys.hsv_to_rgb(index / len(_FINGERS), 1.0, 1.0))
    for index in range(len(_FINGERS))
)
_HAND_JOINT: Color = (0, 0, 255)
_FACE_DOT: Color = (255, 255, 255)

#: The annotators' sizes in pixels on a canvas whose shorter side is _REFERENCE_SIDE.
_REFERENCE_SIDE = 512
_STICK_HALF_WIDTH = 4
_JOINT_RADIUS = 4
_FINGER_WIDTH = 2
_HAND_RADIUS = 4
_FACE_RADIUS = 3

#: Share of its colour that an annotator's stick has, so that joints stand out.
STICK_BRIGHTNESS = 0.6

_SUBPIXEL_BITS = 4
_SUBPIXELS = 1 << _SUBPIXEL_BITS
#: OpenCV's smooth discs reach half a pixel farther than its hard ones.
_DISC_INSET = 0.5


def thick_factor(height: int, width: int) -> int:
    """By how much the SDXL openpose networks (xinsir's) want 4-pixel sticks and joints thicker on such a canvas.

    1 below 500 pixels of the longer side, 2 below 1000, 3 below 2000 and so on, 7 at most:
    huggingface.co/xinsir/controlnet-openpose-sdxl-1.0.
    """
    longer = max(height, width)
    return 1 if longer < 500 else min(2 + longer // 1000, 7)


class _Canvas:
    """Draws each shape twice: smooth in colour, and hard into a mask that cuts the smooth one to whole pixels."""

    def __init__(self, background: np.ndarray) -> None:
        self.background = background
        self.picture = background.copy()
        self.covered = np.zeros(background.shape[:2], dtype=np.uint8)

    def disc(self, center: tuple[int, int], radius: int, color: Color) -> None:
        import cv2

        fixed = [value * _SUBPIXELS for value in center]
        smooth = round((radius - _DISC_INSET) * _SUBPIXELS)
        cv2.circle(self.picture, fixed, smooth, color, cv2.FILLED, cv2.LINE_AA, _SUBPIXEL_BITS)
        cv2.circle(self.covered, center, radius, 255, cv2.FILLED)

    def line(self, start: Sequence[int], end: Sequence[int], width: int, color: Color) -> None:
        import cv2

        cv2.line(self.picture, start, end, color, width, cv2.LINE_AA)
        cv2.line(self.covered, start, end, 255, width)

    def stick(self, start: Floats, end: Floats, half_width: int, color: Color) -> None:
        """A filled ellipse from ``start`` to ``end``, its middle, half length and angle in whole numbers."""
        import cv2

        x, y = start - end  # this way round, as the angle is cut to whole degrees
        length = math.hypot(x, y)
        if length < 1:
            return
        center = [int(value) for value in (start + end) / 2]
        axes = [int(length / 2), half_width]
        angle = int(math.degrees(math.atan2(y, x)))
        hard = cv2.ellipse2Poly(center, axes, angle, 0, 360, 1)
        smooth = cv2.ellipse2Poly(
            [value * _SUBPIXELS for value in center], [value * _SUBPIXELS for value in axes], angle, 0, 360, 2
        )
        cv2.fillConvexPoly(self.picture, smooth, color, cv2.LINE_AA, _SUBPIXEL_BITS)
        cv2.fillConvexPoly(self.covered, hard, 255)

    def result(self) -> np.ndarray:
        import cv2

        return cv2.copyTo(self.picture, self.covered, self.background)


@dataclass(frozen=True)
class _Sizes:
    """In whole pixels, as the annotators have them."""

    stick: int
    joint: int
    finger: int
    hand: int
    face: int

    @classmethod
    def of(cls, height: int, width: int, thick: bool, size: float) -> _Sizes:
        unit = size * min(height, width) / _REFERENCE_SIDE
        body = size * thick_factor(height, width) if thick else unit
        sizes = _STICK_HALF_WIDTH * body, _JOINT_RADIUS * body, _FINGER_WIDTH * unit, _HAND_RADIUS * unit
        return cls(*(max(1, round(value)) for value in (*sizes, _FACE_RADIUS * unit)))


class _Drawing:
    """Draws people on one canvas."""

    def __init__(self, canvas: _Canvas, sizes: _Sizes, threshold: float, stick_brightness: float) -> None:
        self.canvas = canvas
        self.sizes = sizes
        self.threshold = threshold
        self.stick_colors = [tuple(int(channel * stick_brightness) for channel in color) for color in _COLORS]
        self.height, self.width = canvas.covered.shape
        self.limit = 4.0 * max(
            self.height, self.width
        )  # far outside there is nothing to see, and OpenCV's integers end

    def seen(self, rows: Floats) -> NDArray[np.bool_]:
        return (rows[:, 2] > self.threshold) & (np.abs(rows[:, :2]).max(axis=1) < self.limit)

    def dots(self, rows: Floats, radius: int, colors: Sequence[Color]) -> None:
        x, y = rows[:, 0], rows[:, 1]
        drawn = self.seen(rows) & (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
        for index in np.flatnonzero(drawn):
            self.canvas.disc((int(x[index]), int(y[index])), radius, colors[index])

    def person(self, person: OpenPosePerson) -> None:
        seen = self.seen(person.body)
        for (start, end), color in zip(_STICKS, self.stick_colors, strict=False):
            if seen[start] and seen[end]:
                self.canvas.stick(person.body[start, :2], person.body[end, :2], self.sizes.stick, color)
        self.dots(person.body, self.sizes.joint, _COLORS)
        self.dots(person.feet, self.sizes.joint, _COLORS[:6])
        self.hand(person.hand_right)
        self.hand(person.hand_left)
        self.dots(person.face[:68], self.sizes.face, [_FACE_DOT] * 68)  # the pupils are the body's eyes

    def hand(self, hand: Floats) -> None:
        seen = self.seen(hand)
        points = np.where(seen[:, None], hand[:, :2], 0).astype(int).tolist()
        for (start, end), color in zip(_FINGERS, _FINGER_COLORS, strict=True):
            if seen[start] and seen[end]:
                self.canvas.line(points[start], points[end], self.sizes.finger, color)
        self.dots(hand, self.sizes.hand, [_HAND_JOINT] * 21)


def draw_openpose(
    frame: OpenPoseFrame,
    image: Tensor | None = None,
    *,
    threshold: float = VISIBLE_SCORE,
    parts: Parts = ALL_PARTS,
    thick: bool = False,
    size: float = 1.0,
    stick_brightness: float = STICK_BRIGHTNESS,
) -> Tensor:
    """OpenPose people in the colours and shapes of the OpenPose and DWPose annotators; see the top of this file.

    Args:
        frame: the people, in pixels of the canvas to draw on.
        image: (3, H, W) to draw on, 0..1; None draws on black.
        threshold: a keypoint is drawn when its confidence is above this, a stick when both its ends are.
        parts: what of a person is drawn.
        thick: sticks and joints as thick as SDXL's openpose networks want them, see :func:`thick_factor`.
        size: factor on the thickness of everything.
        stick_brightness: share of its colour that a stick of the body has.

    Returns:
        (3, H, W), 0..1.

    Raises:
        ValueError: the image has another size than the frame.
    """
    if image is None:
        background = np.zeros((frame.height, frame.width, 3), dtype=np.uint8)
    elif tuple(image.shape[-2:]) != (frame.height, frame.width):
        raise ValueError(
            f"The pose is of a frame of {frame.width} × {frame.height} pixels, but the image has "
            f"{image.shape[-1]} × {image.shape[-2]}."
        )
    else:
        background = to_uint8(image)
    canvas = _Canvas(background)
    sizes = _Sizes.of(frame.height, frame.width, thick, size)
    drawing = _Drawing(canvas, sizes, threshold, stick_brightness)
    for person in keep_openpose_parts(frame, parts).people:
        drawing.person(person)
    return torch.from_numpy(canvas.result()).float().div_(255).movedim(-1, 0)
