import unicodedata

import pytest

from sapiens2_core.body_parts import BODY_PARTS, PART_GROUPS
from sapiens2_core.part_names import ALIASES, TRANSLATIONS
from sapiens2_core.part_selection import parse_parts

ID = {part.name: part.id for part in BODY_PARTS}
GROUP = {group.name: group.ids for group in PART_GROUPS}


def names(text: str) -> set[str]:
    return {BODY_PARTS[index].name for index in parse_parts(text)}


@pytest.mark.parametrize("part", BODY_PARTS, ids=lambda part: part.name)
def test_a_part_is_found_by_its_name_however_it_is_written(part):
    words = part.name.split("_")
    for text in (part.name, part.name.lower(), " ".join(words), "-".join(words).upper(), "".join(words)):
        assert parse_parts(text) == (part.id,)
        assert parse_parts(unicodedata.normalize("NFKC", text)) == (part.id,)


@pytest.mark.parametrize("group", PART_GROUPS, ids=lambda group: group.name)
def test_a_group_is_found_by_its_name(group):
    assert parse_parts(group.name.title()) == tuple(sorted(group.ids))


def test_parts_of_several_names_come_once_and_in_order():
    assert parse_parts("Hair, Face_Neck; head、hair\nHAIR，") == tuple(sorted(GROUP["head"]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper-clothes", {"Upper_Clothing"}),
        ("Upper Clothing", {"Upper_Clothing"}),
        ("T-shirts", {"Upper_Clothing"}),
        ("eyeglasses", {"Eyeglass"}),
        ("左手", {"Left_Hand"}),
        ("左の手", {"Left_Hand"}),
        ("右 手", {"Right_Hand"}),
        ("L hand", {"Left_Hand"}),
        ("left arms", {"Left_Upper_Arm", "Left_Lower_Arm"}),
        ("right_forearm", {"Right_Lower_Arm"}),
        ("右腿", {"Right_Upper_Leg", "Right_Lower_Leg"}),
        ("lips", {"Upper_Lip", "Lower_Lip"}),
        ("left clothes", {"Left_Shoe", "Left_Sock"}),
        ("legs", {"Left_Upper_Leg", "Left_Lower_Leg", "Right_Upper_Leg", "Right_Lower_Leg"}),
        ("shoe", {"Left_Shoe", "Right_Shoe"}),
        ("上衣", {"Upper_Clothing"}),
        ("髪", {"Hair"}),
        ("头发", {"Hair"}),
        ("ｈａｉｒ", {"Hair"}),
    ],
)
def test_spellings_people_use(text, expected):
    assert names(text) == expected


def test_every_translation_and_alias_means_what_the_table_says():
    known = {**{name: {index} for name, index in ID.items()}, **{name: set(ids) for name, ids in GROUP.items()}}
    assert set(TRANSLATIONS) == set(known)
    for name, words in TRANSLATIONS.items():
        for word in words:
            assert set(parse_parts(word)) == known[name], word
    for stands_for, words in ALIASES.items():
        for word in words:
            assert set(parse_parts(word)) == set().union(*(known[name] for name in stands_for)), word


@pytest.mark.parametrize(
    ("text", "near"), [("uper clothing", "Upper_Clothing"), ("hiar", "hair"), ("左手手", "Left_Hand")]
)
def test_an_unknown_name_is_an_error_that_lists_near_ones(text, near):
    with pytest.raises(ValueError, match=f'no body part "{text}".*Did you mean.*{near}'):
        parse_parts(f"Hair, {text}")


def test_a_name_like_no_other_is_an_error_that_lists_the_groups():
    with pytest.raises(ValueError, match=r'"xyzzy"\. Groups are head, .*skin, clothes'):
        parse_parts("xyzzy")


def test_a_side_of_something_that_has_none_is_an_error():
    with pytest.raises(ValueError, match='no body part "left hair"'):
        parse_parts("left hair")


@pytest.mark.parametrize("text", ["", " , ;\n"])
def test_no_name_is_an_error_that_says_what_to_do(text):
    with pytest.raises(ValueError, match=r"No body part is chosen\. Name some"):
        parse_parts(text)
