from sapiens2_core.keypoints import FLIP_INDICES, FLIP_PAIRS, KEYPOINT_COLORS, KEYPOINT_NAMES, SKELETON


def test_table_has_308_keypoints_of_different_names():
    assert len(KEYPOINT_NAMES) == len(set(KEYPOINT_NAMES)) == len(FLIP_INDICES) == 308
    assert KEYPOINT_COLORS.shape == (308, 3)


def test_mirroring_twice_changes_nothing():
    assert [FLIP_INDICES[FLIP_INDICES[i]] for i in range(308)] == list(range(308))


def test_mirroring_swaps_the_side_in_every_name_that_has_one():
    sides = {"left": "right", "right": "left", "l": "r", "r": "l"}
    for index, name in enumerate(KEYPOINT_NAMES):
        side = next((part for part in name.split("_") if part in sides), None)
        if side is not None:
            assert sides[side] in KEYPOINT_NAMES[FLIP_INDICES[index]].split("_"), name


def test_flip_pairs_are_all_mirrored_keypoints_left_first():
    assert len(FLIP_PAIRS) == 146
    assert sorted(index for pair in FLIP_PAIRS for index in pair) == [i for i in range(308) if FLIP_INDICES[i] != i]
    assert [1, 2] in FLIP_PAIRS
    assert [62, 41] in FLIP_PAIRS  # wrists: the right one comes first in the table
    assert [96, 120] in FLIP_PAIRS
    for left, right in FLIP_PAIRS:
        assert FLIP_INDICES[left] == right
        assert "right" not in KEYPOINT_NAMES[left].split("_")
        assert "r" not in KEYPOINT_NAMES[left].split("_")


def test_skeleton_is_symmetric():
    links = {frozenset((link.start, link.end)) for link in SKELETON}
    assert len(links) == len(SKELETON) == 65
    assert {frozenset(FLIP_INDICES[index] for index in link) for link in links} == links
