"""Select Body Parts."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..sapiens2_core.body_parts import BODY_PARTS, PART_GROUPS
from ..sapiens2_core.part_masks import MaskFinish, found_parts, part_masks
from ..sapiens2_core.part_names import TRANSLATIONS
from ..sapiens2_core.part_selection import known_names, parse_parts
from ..sapiens2_core.results import Segmentation
from . import host
from .sockets import SegmentationSocket

#: The page's widget for ``parts`` (web/js/body_parts.js). Without it the input is a plain text field.
PICKER = "SAPIENS2_BODY_PARTS"


def _picker_table() -> dict[str, Any]:
    """The parts and groups as the page's picker shows them, so that it needs no table of its own."""

    def names(name: str) -> dict[str, str]:
        chinese, japanese = TRANSLATIONS[name]
        return {"name": name, "zh": chinese, "ja": japanese}

    return {
        "parts": [{**names(part.name), "id": part.id, "color": list(part.color)} for part in BODY_PARTS],
        "groups": [{**names(group.name), "ids": list(group.ids)} for group in PART_GROUPS],
        "names": {name: sorted(ids) for name, ids in known_names().items()},
    }


class Sapiens2SelectBodyParts(io.ComfyNode):
    """A mask of some body parts."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SelectBodyParts",
            display_name="Select Body Parts",
            category="Sapiens2",
            description="A mask of the body parts you choose: hair, clothes, skin, a hand. Cleaned, steady over a "
            "clip, grown and feathered.",
            search_aliases=[
                "clothes mask",
                "hair mask",
                "face mask",
                "skin mask",
                "human parsing",
                "body part mask",
                "segment clothes",
            ],
            inputs=[
                SegmentationSocket.Input("segmentation", tooltip="From Segment Body Parts."),
                io.String.Input(
                    "parts",
                    default="clothes",
                    extra_dict={"widgetType": PICKER, "bodyParts": _picker_table()},
                    tooltip="Names of parts and groups between commas: Hair, Face_Neck; skin; clothes; left arm. The "
                    "mask is 1 on all of them together. Case, spaces and hyphens don't count; Chinese and Japanese "
                    "names work too.",
                ),
                io.Boolean.Input(
                    "soft",
                    default=False,
                    tooltip="The mask is how likely a pixel belongs to the parts, with soft edges at fine hair. Needs "
                    "soft turned on in Segment Body Parts as well. Off: 0 or 1.",
                ),
                io.Int.Input(
                    "grow",
                    default=0,
                    min=-512,
                    max=512,
                    tooltip="Grows the mask by so many pixels on all sides; a negative number shrinks it. A few pixels "
                    "help inpainting to replace a garment whole.",
                ),
                io.Float.Input(
                    "feather",
                    default=0.0,
                    min=0.0,
                    max=256.0,
                    step=0.5,
                    tooltip="The edge fades over so many pixels inwards and as many outwards; it stays where it was at "
                    "one half. 0: no fade.",
                ),
                io.Int.Input(
                    "fill_holes",
                    default=0,
                    min=0,
                    max=100_000_000,
                    tooltip="Holes of up to so many pixels are filled. 0: none. Large values also fill what one looks "
                    "through on purpose, such as between an arm and the waist.",
                ),
                io.Int.Input(
                    "min_area",
                    default=0,
                    min=0,
                    max=100_000_000,
                    tooltip="Islands of fewer pixels are dropped, such as specks on the background. 0 keeps all.",
                ),
                io.Int.Input(
                    "steady",
                    default=0,
                    min=0,
                    max=15,
                    tooltip="Takes flicker out of a clip: every pixel becomes what it is in most of so many frames "
                    "before and as many after, never across a cut. More removes longer flicker, and with it what "
                    "moves fast and is small. 0: every frame by itself.",
                ),
                io.Boolean.Input("invert", default=False, tooltip="1 everywhere but on the parts. Done last."),
            ],
            outputs=[io.Mask.Output("mask", tooltip="1 on the chosen parts, 0 elsewhere; one mask for each frame.")],
        )

    @classmethod
    def validate_inputs(cls, parts: str | None) -> bool | str:
        """Refuses unknown names before anything runs; a linked text isn't known by then."""
        try:
            if parts is not None:
                parse_parts(parts)
        except ValueError as error:
            return str(error)
        return True

    @classmethod
    def execute(
        cls,
        segmentation: Segmentation,
        parts: str,
        soft: bool,
        grow: int,
        feather: float,
        fill_holes: int,
        min_area: int,
        steady: int,
        invert: bool,
    ) -> io.NodeOutput:
        """Makes the masks frame by frame, and tells the page which parts there are, with their share of the area."""
        finish = MaskFinish(steady, min_area, fill_holes, grow, feather, invert)
        frames = part_masks(segmentation, parse_parts(parts), soft, finish)
        masks = host.empty_masks(*segmentation.labels.shape)
        for index in host.with_progress(len(masks)):
            masks[index] = next(frames)
        found = found_parts(segmentation.labels)
        # Pairs and not dicts: ComfyUI counts dicts as files that the node made.
        shares = [[part.name, found[part.id]] for part in BODY_PARTS if part.id in found]
        return io.NodeOutput(masks, ui={"body_parts": shares})
