"""Which body parts a text names: "Hair, Face_Neck", "skin", "left arm", "上衣"."""

from __future__ import annotations

import difflib
import re
import unicodedata
from functools import lru_cache

from .body_parts import BODY_PARTS, PART_GROUPS
from .part_names import ALIASES, TRANSLATIONS

_SEPARATORS = re.compile(r"[,;\n、，；]+")
_LEFT_OR_RIGHT = re.compile(r"^(left|right|l|r|左|右)[\W_]*(?:の|侧|側)?(.+)$")
_SIDES = {"left": "left", "l": "left", "左": "left", "right": "right", "r": "right", "右": "right"}


def parse_parts(text: str) -> tuple[int, ...]:
    """Ids of the body parts that a text names.

    Args:
        text: names of parts (:data:`~sapiens2_core.body_parts.BODY_PARTS`) and groups
            (:data:`~sapiens2_core.body_parts.PART_GROUPS`), or what else people call them
            (:mod:`~sapiens2_core.part_names`), between commas. Case, spaces, hyphens, underscores and plurals don't
            count; "left" or "right" before a name takes that side of it.

    Returns:
        Ids in increasing order, each once.

    Raises:
        ValueError: no name, or an unknown one; the message lists those that look like it.
    """
    names = [name.strip() for name in _SEPARATORS.split(text) if name.strip()]
    if not names:
        raise ValueError(
            f"No body part is chosen. Name some, for example Hair, Upper_Clothing, or a group: {_group_names()}."
        )
    return tuple(sorted({part for name in names for part in _find(name)}))


def _find(name: str) -> frozenset[int]:
    """Ids that one name stands for."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    known = known_names()
    if found := known.get(_key(plain)):
        return found
    if sided := _LEFT_OR_RIGHT.match(plain):
        found = known.get(_key(sided[2]), frozenset()) & known[_SIDES[sided[1]]]
        if found:
            return found
    near = difflib.get_close_matches(_key(plain), known, n=5, cutoff=0.6)
    shown = list(dict.fromkeys(_plain_names()[key] for key in near))
    advice = f"Did you mean {' or '.join(shown)}?" if shown else f"Groups are {_group_names()}."
    raise ValueError(f'There is no body part "{name}". {advice}')


def _key(name: str) -> str:
    """A name without what people spell differently."""
    words = re.split(r"[\W_]+", unicodedata.normalize("NFKC", name).casefold())
    return "".join(re.sub(r"(?<=[a-z]{2}[a-rt-z])s$", "", word) for word in words)  # shoes, but not glass


def _group_names() -> str:
    return ", ".join(group.name for group in PART_GROUPS)


def _ids_by_name() -> dict[str, tuple[int, ...]]:
    """Ids of parts and groups by their own names; "Hair" and "hair" are the same."""
    return {part.name: (part.id,) for part in BODY_PARTS} | {group.name: group.ids for group in PART_GROUPS}


def _all_names() -> list[tuple[str, tuple[str, ...]]]:
    """Every way to write a name, and the names of the parts or groups it stands for."""
    names = [(name, (name,)) for name in _ids_by_name()]
    names += [(word, (name,)) for name, words in TRANSLATIONS.items() for word in words]
    names += [(word, stands_for) for stands_for, words in ALIASES.items() for word in words]
    return names


@lru_cache(maxsize=1)
def known_names() -> dict[str, frozenset[int]]:
    """Ids by every known name, without what people spell differently: lower case, no spaces, no plural s."""
    ids = _ids_by_name()
    return {_key(word): frozenset(i for name in stands_for for i in ids[name]) for word, stands_for in _all_names()}


@lru_cache(maxsize=1)
def _plain_names() -> dict[str, str]:
    """By the key of every known name, what it stands for."""
    return {_key(word): ", ".join(stands_for) for word, stands_for in _all_names()}
