"""Keeps locales/ in step with the nodes, out of what a running ComfyUI says of them.

python -m tools.locales --server http://127.0.0.1:8188

locales/en is written from the nodes' schemas. In the other languages, what is new or whose English has changed is left
out and listed: translate that, then run this again.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCALES = Path(__file__).resolve().parents[1] / "locales"
FILE = "nodeDefs.json"
LANGUAGES = ("ja", "zh")

#: A text's place: node, then keys below it.
Place = tuple[str, ...]


def texts_of(object_info: dict[str, Any]) -> dict[Place, str]:
    """Every text of this pack's nodes that ComfyUI's page translates, by its place in nodeDefs.json.

    Options of lists are not among them: the page shows those as they are.

    Args:
        object_info: what ComfyUI's /object_info answers.
    """
    texts: dict[Place, str] = {}
    for node, info in object_info.items():
        if not node.startswith("Sapiens2") or "comfyui-sapiens2" not in (info["python_module"] or ""):
            continue
        texts[node, "display_name"] = info["display_name"]
        texts[node, "description"] = info["description"]
        for name, (_, options) in {**info["input"].get("required", {}), **info["input"].get("optional", {})}.items():
            texts[node, "inputs", name, "name"] = options.get("display_name") or name
            texts[node, "inputs", name, "tooltip"] = options["tooltip"]
        for index, (name, tooltip) in enumerate(zip(info["output_name"], info["output_tooltips"], strict=True)):
            texts[node, "outputs", str(index), "name"] = name
            texts[node, "outputs", str(index), "tooltip"] = tooltip
    return texts


def flatten(tree: dict[str, Any], place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Texts of a nodeDefs.json by their place."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, (*place, key))
        else:
            yield (*place, key), value


def nest(texts: dict[Place, str]) -> dict[str, Any]:
    """The other way round."""
    tree: dict[str, Any] = {}
    for place, text in texts.items():
        branch = tree
        for key in place[:-1]:
            branch = branch.setdefault(key, {})
        branch[place[-1]] = text
    return tree


def read(language: str) -> dict[Place, str]:
    """Texts of a language, none where it has no file."""
    path = LOCALES / language / FILE
    return dict(flatten(json.loads(path.read_text(encoding="utf-8")))) if path.is_file() else {}


def write(language: str, texts: dict[Place, str]) -> None:
    """Writes a language's file."""
    path = LOCALES / language / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nest(texts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Writes all languages and prints what is to be translated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="http://127.0.0.1:8188", help="address of a ComfyUI that has this pack")
    with urllib.request.urlopen(f"{parser.parse_args().server}/object_info") as answer:
        texts = texts_of(json.load(answer))
    before = read("en")
    translations = {language: read(language) for language in LANGUAGES}  # all of them before anything is written
    write("en", texts)
    for language, known in translations.items():
        kept = {place: known[place] for place in texts if place in known and before.get(place) == texts[place]}
        write(language, kept)
        for place in texts.keys() - kept.keys():
            print(f"{language}: {'.'.join(place)}: {texts[place]}")


if __name__ == "__main__":
    main()
