"""A face: curves of eyes, brows and lips in the plane of the face, of which both its paint and its keypoints are made.

The head's space: metres at a head of natural size, x to the person's left, y up, z forward, origin at the joint of
the skull. The plane of the face is x, y; curves are laid on the head's solids along z, those of ears along x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..keypoints import FLIP_INDICES
from .primitives import Floats, Integers

#: Ids of :data:`sapiens2_core.body_parts.BODY_PARTS`.
FACE, LOWER_LIP, UPPER_LIP, LOWER_TEETH, UPPER_TEETH, TONGUE = 3, 24, 25, 26, 27, 28


@dataclass(frozen=True)
class Face:
    """One person's face.

    Attributes:
        skin, lips, brows, iris: (3,) RGB 0..1.
        eye_apart, eye_height, eye_width: of the eyes' centres from the middle, above the origin, half their width.
        eye_open: 0.3 narrow .. 1 wide.
        gaze: (2,) where the irises look, -1..1 to the left and up.
        brow_height: above the eyes' centres; brow_tilt: how much its outer end lies lower; brow_thick: half.
        mouth_height: above the origin; mouth_width: half; lip_thick: of the upper lip.
        mouth_open: gap between the lips; smile: how far the corners rise.
        shows_tongue: whether an open mouth does.
        blush: 0..1.
    """

    skin: Floats
    lips: Floats
    brows: Floats
    iris: Floats
    eye_apart: float = 0.032
    eye_height: float = 0.078
    eye_width: float = 0.0155
    eye_open: float = 0.7
    gaze: tuple[float, float] = (0.0, 0.0)
    brow_height: float = 0.021
    brow_tilt: float = 0.003
    brow_thick: float = 0.0032
    mouth_height: float = 0.004
    mouth_width: float = 0.025
    lip_thick: float = 0.0075
    mouth_open: float = 0.0
    smile: float = 0.003
    shows_tongue: bool = False
    blush: float = 0.3

    # Curves: heights (y) over e, which runs from -1 (inner corner of the eye, start of the brow) to 1 (outer), and over
    # m, from -1 (corner of the mouth at the person's right) to 1.

    def upper_lid(self, e: Floats) -> Floats:
        """Of the left eye and, mirrored, the right."""
        return self.eye_height + 0.0011 * e + 0.0118 * self.eye_open * (1 - np.abs(e) ** 2.2)

    def lower_lid(self, e: Floats) -> Floats:
        """Of the left eye and, mirrored, the right."""
        return self.eye_height + 0.0011 * e - 0.0082 * self.eye_open * (1 - np.abs(e) ** 2.2)

    def brow(self, e: Floats) -> tuple[Floats, Floats]:
        """Middle line and half thickness."""
        middle = self.eye_height + self.brow_height - self.brow_tilt * e - 0.005 * np.clip(e - 0.3, -2, 1) ** 2
        return middle, self.brow_thick * (1 - 0.45 * np.clip(e, 0, 1)) * (1.001 - np.abs(e) ** 6)

    def mouth_line(self, m: Floats) -> Floats:
        """The line where closed lips meet."""
        return self.mouth_height + self.smile * (m * m - 0.35)

    def lips_at(self, m: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Heights of the outer upper, inner upper, inner lower, outer lower edge."""
        line, arch = self.mouth_line(m), 1 - m * m
        inner_arch = np.clip(1 - (m / 0.88) ** 2, 0, 1)
        upper, lower = line + 0.45 * self.mouth_open * inner_arch, line - 0.55 * self.mouth_open * inner_arch
        bow = 0.0016 * np.exp(-((m / 0.16) ** 2))
        outer = upper + self.lip_thick * arch * (1.06 - 0.18 * np.abs(m)) - bow
        return outer, upper, lower, lower - 1.3 * self.lip_thick * arch

    @property
    def iris_center(self) -> tuple[float, float]:
        """(outwards shift for the left eye, height) of the irises; both eyes look the same way."""
        return 0.005 * self.gaze[0], self.eye_height + 0.0012 + 0.002 * self.gaze[1]

    def paint(self, points: Floats, colors: Floats, labels: Integers, gloss: Floats) -> tuple[Floats, Integers, Floats]:
        """Paints eyes, brows and lips where a head was hit.

        Args:
            points: (N, 3) in the head's space.
            colors: (N, 3) RGB 0..1.
            labels: (N,).
            gloss: (N,).

        Returns:
            Colours, labels and gloss, changed.
        """
        colors, labels, gloss = colors.copy(), labels.copy(), gloss.copy()
        front = np.flatnonzero((points[:, 2] > 0.03) & (points[:, 1] < 0.14))
        x, y = points[front, 0], points[front, 1]
        tint, part = colors[front], labels[front]

        cheek = np.exp(-(((np.abs(x) - 0.04) / 0.018) ** 2) - ((y - 0.035) / 0.016) ** 2)[:, None]
        tint *= 1 - self.blush * cheek * np.array([0.05, 0.28, 0.25])
        socket = np.exp(-(((np.abs(x) - self.eye_apart) / 0.02) ** 2) - ((y - self.eye_height - 0.004) / 0.014) ** 2)
        tint *= 1 - 0.16 * socket[:, None]

        e = (np.abs(x) - self.eye_apart) / self.eye_width
        upper, lower = self.upper_lid(e), self.lower_lid(e)
        in_eye = (np.abs(e) < 1) & (y < upper) & (y > lower)
        lashes = (np.abs(e) < 1.06) & ~in_eye & (y >= self.eye_height - 0.002) & (y < upper + 0.0026)
        tint[lashes] = self.brows * 0.35
        tint[in_eye] = (0.95, 0.95, 0.94)
        shift, height = self.iris_center
        away = np.hypot(x - np.sign(x) * self.eye_apart - shift, y - height)
        tint[in_eye & (away < 0.0066)] = self.iris
        tint[in_eye & (away < 0.0031)] = (0.02, 0.02, 0.02)
        gloss[front[in_eye]] = 0.3

        b = (np.abs(x) - self.eye_apart - 0.001) / 0.021
        middle, half = self.brow(b)
        tint[(np.abs(b) < 1) & (np.abs(y - middle) < half)] = self.brows

        m = x / self.mouth_width
        outer_upper, inner_upper, inner_lower, outer_lower = self.lips_at(m)
        at_mouth = (np.abs(m) < 1) & (y < outer_upper) & (y > outer_lower)
        is_upper, is_lower = at_mouth & (y >= inner_upper), at_mouth & (y <= inner_lower)
        inside = at_mouth & ~is_upper & ~is_lower
        tint[is_upper], part[is_upper] = self.lips * 0.9, UPPER_LIP
        tint[is_lower], part[is_lower] = self.lips, LOWER_LIP
        if self.mouth_open < 0.002:
            seam = at_mouth & (np.abs(y - self.mouth_line(m)) < 0.0008)
            tint[seam] = self.lips * 0.5
        else:
            gap = inner_upper - inner_lower
            tint[inside], part[inside] = (0.25, 0.06, 0.06), FACE
            teeth = inside & (y > inner_upper - np.minimum(0.007, 0.5 * gap))
            tint[teeth], part[teeth] = (0.94, 0.93, 0.88), UPPER_TEETH
            teeth = inside & (y < inner_lower + np.minimum(0.005, 0.25 * gap))
            tint[teeth], part[teeth] = (0.88, 0.87, 0.82), LOWER_TEETH
            if self.shows_tongue:
                tongue = inside & (np.hypot(x / 0.013, (y - inner_lower) / np.maximum(0.6 * gap, 1e-4)) < 1)
                tint[tongue], part[tongue] = (0.80, 0.38, 0.38), TONGUE
        gloss[front[at_mouth]] = 0.2
        colors[front], labels[front] = tint, part
        return colors, labels, gloss

    def landmarks(self) -> tuple[Floats, Integers]:
        """Keypoints of the face, but for the tip and the wings of the nose, in the plane of the face.

        Returns:
            places: (K, 2) x, y.
            index: (K,) of :data:`sapiens2_core.keypoints.KEYPOINT_NAMES`.
        """
        found: dict[int, tuple[float, float]] = {}
        y0 = self.eye_height
        found |= {
            70: (0, y0 + 0.014),
            71: (0, y0 - 0.002),
            76: (0, self.mouth_height - 0.021),
            77: (0, self.mouth_height - 0.038),
        }

        # Points along brows, lids and lips are numbered from the image's left to its right on a face seen from
        # the front, halves first, then quarters. Here the left eye; its outer corner lies on the image's right.
        halves = {"1": -0.5, "2": 0.5, "3": -0.75, "4": -0.25, "5": 0.25, "6": 0.75, "c": 0.0}

        def along(first: int, order: str, curve, shift: float = 0.0) -> None:
            for step, name in enumerate(order):
                e = halves[name]
                found[first + step] = (self.eye_apart + e * self.eye_width, float(curve(np.array(e))) + shift)

        def corner(index: int, e: float, curve, shift: float = 0.0) -> None:
            found[index] = (self.eye_apart + e * self.eye_width, float(curve(np.array(e))) + shift)

        for first, curve in ((96, self.upper_lid), (144, self.lower_lid)):
            corner(first, -1, curve)
            corner(first + 1, 1, curve)
            along(first + 2, "c216543", curve)
        corner(105, 0.95, self.upper_lid, 0.003)
        along(106, "625c413", self.upper_lid, 0.003)
        along(113, "625c413", self.upper_lid, 0.0065)
        corner(153, 0.95, self.lower_lid, -0.003)
        along(154, "625c413", self.lower_lid, -0.003)

        for indices, e, edge in (
            ((87, 88), -0.96, None),
            ((89,), 0.98, 0.0),
            ((90, 91), 0.0, None),
            ((93, 95), 0.5, None),
            ((92, 94), -0.5, None),
        ):
            middle, half = (float(value) for value in self.brow(np.array(e)))
            for index, sign in zip(indices, (1, -1), strict=False):
                found[index] = (self.eye_apart + 0.001 + 0.021 * e, middle + (sign if edge is None else edge) * half)

        shift, height = self.iris_center
        # Clock positions as the camera sees a face from the front; the middles from twelve o'clock on.
        clock = {0: None, 1: 0, 2: 45, 3: 90, 4: 135, 5: 180, 6: 225, 7: 270, 8: -45}
        for first, radius in ((272, 0.0066), (290, 0.0031)):
            for eye, side in ((first, 1), (first + 9, -1)):
                for step, angle in clock.items():
                    reach = 0.0 if angle is None else radius
                    turn = np.radians(angle or 0)
                    found[eye + step] = (
                        side * self.eye_apart + shift + reach * np.cos(turn),
                        height + reach * np.sin(turn),
                    )
        found[1], found[2] = found[272], found[281]

        width = self.mouth_width
        found |= {
            188: (-width, float(self.lips_at(np.array(-1.0))[0])),
            204: (-0.88 * width, float(self.mouth_line(np.array(-0.88)))),
        }
        for center, half, quarter, edge in (
            (190, 192, 196, 0),
            (191, 194, 200, 3),
            (206, 208, 212, 1),
            (207, 210, 216, 2),
        ):
            reach = 1.0 if edge in (0, 3) else 0.88
            steps = (
                (center, 0.0),
                (half, -0.5),
                (half + 1, 0.5),
                (quarter, -0.75),
                (quarter + 1, -0.25),
                (quarter + 2, 0.25),
                (quarter + 3, 0.75),
            )
            for index, m in steps:
                m *= reach
                found[index] = (m * width, float(self.lips_at(np.array(m))[edge]))

        for index, (x, y) in list(found.items()):
            found.setdefault(FLIP_INDICES[index], (-x, y))
        return np.array(list(found.values())), np.array(list(found))


#: Keypoints of the left ear in its plane, seen from the left: (forward, up) in half widths and half heights.
LEFT_EAR: dict[int, tuple[float, float]] = {
    220: (0.25, 0.42), 221: (-0.05, 0.52), 222: (-0.05, 0.22), 223: (-0.10, -0.42), 224: (-0.30, 0.08),
    225: (0.10, 0.34), 226: (-0.36, -0.10), 227: (-0.28, -0.28),
    228: (0.42, 0.50), 229: (0.22, 0.70), 230: (-0.04, 0.76), 231: (-0.32, 0.66), 232: (-0.54, 0.44),
    233: (-0.64, 0.16), 234: (-0.62, -0.12), 245: (-0.50, -0.38),
    235: (0.12, -0.40), 236: (0.46, -0.30), 237: (0.52, -0.12), 238: (0.52, 0.08), 239: (0.34, 0.10),
    240: (0.18, -0.10), 241: (0.12, -0.86), 242: (0.02, 0.02), 243: (0.50, -0.66), 244: (0.60, 0.50),
    3: (0.52, -0.08),
}  # fmt: skip
