from pathlib import Path

import torch

from sapiens2_core.body_parts import BODY_PARTS, PALETTE, PART_GROUPS
from sapiens2_core.part_names import TRANSLATIONS


def test_ids_are_the_places_in_the_table():
    assert [part.id for part in BODY_PARTS] == list(range(29))
    assert len({part.name for part in BODY_PARTS}) == 29


def test_palette_holds_every_colour_once():
    assert PALETTE.shape == (29, 3)
    assert PALETTE.dtype == torch.uint8
    assert len({tuple(row) for row in PALETTE.tolist()}) == 29


def test_known_rows_of_the_authors_table():
    known = {0: ("Background", (50, 50, 50)), 4: ("Hair", (255, 0, 109)), 28: ("Tongue", (82, 21, 114))}
    for index, (name, color) in known.items():
        assert (BODY_PARTS[index].name, BODY_PARTS[index].color) == (name, color)


def test_every_left_part_has_a_right_one():
    names = {part.name for part in BODY_PARTS}
    left = [name for name in names if name.startswith("Left_")]
    assert len(left) == 8
    assert all(name.replace("Left_", "Right_") in names for name in left)


GROUPS = {group.name: {BODY_PARTS[index].name for index in group.ids} for group in PART_GROUPS}


def test_left_and_right_groups_mirror_each_other():
    assert {name.replace("Left_", "Right_") for name in GROUPS["left"]} == GROUPS["right"]
    assert len(GROUPS["left"]) == 8
    for name in ("hands", "arms", "feet", "legs", "clothes", "skin"):
        left = {part.removeprefix("Left_") for part in GROUPS[name] & GROUPS["left"]}
        assert left == {part.removeprefix("Right_") for part in GROUPS[name] & GROUPS["right"]}, name


def test_every_part_of_a_person_is_in_exactly_one_of_what_covers_the_body():
    """Skin, clothes and what is neither share the person out."""
    neither = {"Hair", "Eyeglass", "Lower_Teeth", "Upper_Teeth", "Tongue"}
    assert GROUPS["skin"] | GROUPS["clothes"] | neither == GROUPS["person"]
    assert not GROUPS["skin"] & GROUPS["clothes"]
    assert not (GROUPS["skin"] | GROUPS["clothes"]) & neither
    assert GROUPS["person"] == {part.name for part in BODY_PARTS} - {"Background"}


def test_the_help_page_has_every_part_and_group_as_the_tables_have_them():
    page = (Path(__file__).parents[1] / "web" / "docs" / "Sapiens2SelectBodyParts.md").read_text(encoding="utf-8")
    for part in BODY_PARTS:
        chinese, japanese = TRANSLATIONS[part.name]
        row = f"| {part.id} | {part.name} | {chinese} | {japanese} |"
        assert row in page
        assert "#" + bytes(part.color).hex() in page[page.index(row) :].split("\n", 1)[0]
    for group in PART_GROUPS:
        chinese, japanese = TRANSLATIONS[group.name]
        parts = ", ".join(BODY_PARTS[index].name for index in group.ids)
        parts = "all but Background" if group.name == "person" else parts
        assert f"| {group.name} | {chinese} | {japanese} | {parts} |" in page
