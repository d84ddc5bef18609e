"""The nodes in other languages, against the schemas that a running ComfyUI has of them."""

from __future__ import annotations

import re

import pytest

from tools.locales import LANGUAGES, read, texts_of

#: Letters of Chinese and Japanese.
CJK = re.compile(r"[぀-ヿ一-鿿]")
KANA = re.compile(r"[぀-ヿ]")


@pytest.fixture(scope="module")
def object_info(comfy):
    return comfy.json("/object_info")


@pytest.fixture(scope="module")
def english(object_info):
    return texts_of(object_info)


def test_english_is_what_the_schemas_say(english):
    assert read("en") == english, "run: python -m tools.locales --server …"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_missing_and_none_is_stale(english, language):
    translated = read(language)
    assert english.keys() - translated.keys() == set(), "missing"
    assert translated.keys() - english.keys() == set(), "stale"


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_in_the_language(english, language):
    for place, text in read(language).items():
        if place[-1] in ("description", "tooltip"):
            assert CJK.search(text), place
            assert language != "ja" or KANA.search(text) or len(text) < 20, place
            assert language != "zh" or not KANA.search(text), place


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_hold_nothing_that_the_page_takes_for_a_placeholder(language):
    for place, text in {**read("en"), **read(language)}.items():
        assert not re.search(r"[{}@|]", text), place


@pytest.mark.parametrize("language", LANGUAGES)
def test_options_keep_the_names_that_the_page_shows(object_info, english, language):
    translated = read(language)
    for (node, *_, name, key), text in ((p, t) for p, t in english.items() if p[1] == "inputs"):
        spec = object_info[node]["input"]
        _, options = {**spec.get("required", {}), **spec.get("optional", {})}[name]
        if key != "tooltip" or name == "checkpoint":
            continue
        for option in options.get("options", []):
            if re.search(rf"\b{re.escape(option)}:", text):
                assert option in translated[node, "inputs", name, key], (node, name, option)


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_comfyui_serves_them_to_the_page(comfy, language):
    served = comfy.json("/i18n")[language]["nodeDefs"]["Sapiens2LoadModel"]
    assert served["display_name"] == read(language)["Sapiens2LoadModel", "display_name"]
    assert (
        served["inputs"]["checkpoint"]["tooltip"]
        == read(language)["Sapiens2LoadModel", "inputs", "checkpoint", "tooltip"]
    )
