"""Visible text: the same in Python, in the pages, and in Unicode's own tables."""

import re
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import services.dashboard
from libs.contracts.visible_text import INVISIBLE, visible_length

PAGES: Final = Path(services.dashboard.__file__).parent / "assets/visible-text.js"
IGNORABLE: Final = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u3164\uffa0"
"""Marks, letters and free places that Unicode lists as default-ignorable, besides those below."""


@cache
def every() -> str:
    """Return all characters."""
    return "".join(map(chr, range(sys.maxunicode + 1)))


def matches(of_class: str) -> set[str]:
    return set(re.findall(f"[{of_class}]", every()))


def test_invisible_are_the_blank_format_and_ignorable_characters_of_unicode() -> None:
    blank = {each for each in every() if unicodedata.category(each) in ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs")}
    ignorable = {*IGNORABLE, *map(chr, (*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)))}
    newer = {chr(each) for each in range(0x13430, 0x13440)}
    assert matches(INVISIBLE) == blank | ignorable | newer | {"\u2800"}
    assert matches(INVISIBLE) >= {each for each in every() if not each.strip()}


def test_the_pages_have_the_same_characters() -> None:
    """Written in JavaScript's way."""
    (of_pages,) = re.findall(r"/\[\^(.+)\]/u;", PAGES.read_text())
    assert re.sub(r"\\u\{(\w+)\}", lambda found: rf"\U{found[1]:0>8}", of_pages) == INVISIBLE


@pytest.mark.parametrize(
    "blank", ["", " \t", *"\u200b\u2060\ufeff\u00ad\u3164\u2800\u200f", "\u200d\ufe0f\U000e0020"]
)
def test_a_text_of_such_characters_alone_is_blank(blank: str) -> None:
    assert visible_length(blank) == 0


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("\U0001f469\u200d\U0001f469\u200d\U0001f466", 3),
        ("\u2764\ufe0f", 1),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 7),
        ("\u202b\u05e9\u05dc\u05d5\u05dd\u202c", 4),
        ("e\u0301", 2),
        ("\u1112\u1161\u11ab", 3),
        ("\ue000", 1),
        ("0", 1),
    ],
    ids=["family", "heart", "Persian", "Hebrew", "combining", "Hangul", "private", "zero"],
)
def test_a_text_in_any_script_is_not(text: str, length: int) -> None:
    assert visible_length(text) == length
