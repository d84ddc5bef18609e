"""The 29 body parts that Sapiens2 segments: ids, names, the authors' colours, and groups of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class BodyPart:
    """One class of the segmentation.

    Attributes:
        id: value in a label map; 0 is the background.
        name: the authors' name. Left and right are the person's own.
        color: the authors' colour, RGB 0..255.
    """

    id: int
    name: str
    color: tuple[int, int, int]


#: Every class, in order of its id.
BODY_PARTS: tuple[BodyPart, ...] = (
    BodyPart(0, "Background", (50, 50, 50)),
    BodyPart(1, "Apparel", (255, 218, 0)),
    BodyPart(2, "Eyeglass", (14, 204, 182)),
    BodyPart(3, "Face_Neck", (128, 200, 255)),
    BodyPart(4, "Hair", (255, 0, 109)),
    BodyPart(5, "Left_Foot", (189, 0, 204)),
    BodyPart(6, "Left_Hand", (255, 0, 218)),
    BodyPart(7, "Left_Lower_Arm", (0, 160, 204)),
    BodyPart(8, "Left_Lower_Leg", (0, 255, 145)),
    BodyPart(9, "Left_Shoe", (204, 0, 131)),
    BodyPart(10, "Left_Sock", (182, 0, 255)),
    BodyPart(11, "Left_Upper_Arm", (255, 109, 0)),
    BodyPart(12, "Left_Upper_Leg", (0, 255, 255)),
    BodyPart(13, "Lower_Clothing", (72, 0, 255)),
    BodyPart(14, "Right_Foot", (204, 131, 0)),
    BodyPart(15, "Right_Hand", (255, 0, 0)),
    BodyPart(16, "Right_Lower_Arm", (72, 255, 0)),
    BodyPart(17, "Right_Lower_Leg", (189, 204, 0)),
    BodyPart(18, "Right_Shoe", (182, 255, 0)),
    BodyPart(19, "Right_Sock", (102, 0, 204)),
    BodyPart(20, "Right_Upper_Arm", (32, 72, 204)),
    BodyPart(21, "Right_Upper_Leg", (0, 145, 255)),
    BodyPart(22, "Torso", (14, 204, 0)),
    BodyPart(23, "Upper_Clothing", (0, 128, 72)),
    BodyPart(24, "Lower_Lip", (235, 205, 119)),
    BodyPart(25, "Upper_Lip", (115, 227, 112)),
    BodyPart(26, "Lower_Teeth", (157, 113, 143)),
    BodyPart(27, "Upper_Teeth", (132, 93, 50)),
    BodyPart(28, "Tongue", (82, 21, 114)),
)

#: (29, 3) uint8, the RGB colour of each id.
PALETTE = torch.tensor([part.color for part in BODY_PARTS], dtype=torch.uint8)


@dataclass(frozen=True)
class PartGroup:
    """Parts that are often wanted together.

    Attributes:
        name: what it is called in a selection.
        ids: of its parts.
    """

    name: str
    ids: tuple[int, ...]


#: Groups of parts, which overlap. Feet are what is on them, too.
PART_GROUPS: tuple[PartGroup, ...] = (
    PartGroup("head", (2, 3, 4, 24, 25, 26, 27, 28)),
    PartGroup("hair", (4,)),
    PartGroup("face details", (24, 25, 26, 27, 28)),
    PartGroup("arms", (7, 11, 16, 20)),
    PartGroup("hands", (6, 15)),
    PartGroup("legs", (8, 12, 17, 21)),
    PartGroup("feet", (5, 9, 10, 14, 18, 19)),
    PartGroup("skin", (3, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 20, 21, 22, 24, 25)),
    PartGroup("clothes", (1, 9, 10, 13, 18, 19, 23)),
    PartGroup("left", (5, 6, 7, 8, 9, 10, 11, 12)),
    PartGroup("right", (14, 15, 16, 17, 18, 19, 20, 21)),
    PartGroup("person", tuple(range(1, len(BODY_PARTS)))),
)
