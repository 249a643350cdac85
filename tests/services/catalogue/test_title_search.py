"""The search in titles: by beginnings of words, and by symbols."""

from dataclasses import replace

import orjson
import pytest

from libs.contracts.catalogue_events import Stored
from libs.contracts.limits import TITLE
from services.catalogue.routes import _require_word, titled

RECORD = Stored("k", 1, 1, 1, 0, "", "{}")


@pytest.mark.parametrize(
    ("title", "words", "is_found"),
    [
        ("\U0001f3a4", "\U0001f3a4", True),
        ("Karaoke \U0001f469\u200d\U0001f3a4\U0001f3b8", "\U0001f3a4 kara", True),
        ("I \u2764\ufe0f you", "\u2764", True),
        ("Karaoke", "\U0001f3a4", False),
        ("Rock & Pop", "rock+pop", True),
        ("\u00dcber", "uber", True),
    ],
)
def test_a_title_is_found_by_its_words_and_symbols(title: str, words: str, is_found: bool) -> None:
    [fits] = titled(_require_word(words))
    assert fits(replace(RECORD, record=orjson.dumps({"title": title}).decode())) == is_found


@pytest.mark.parametrize("text", [" - ", "+", "\u200d\ufe0f", "\u2014"])
def test_a_search_without_a_word_or_symbol_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a word or a symbol"):
        _require_word(text)


@pytest.mark.parametrize(("words", "is_found"), [("first", True), ("last", False)])
def test_of_a_title_stored_before_titles_had_a_limit_the_beginning_is_searched(words: str, is_found: bool) -> None:
    [fits] = titled(words)
    title = "first " + "a" + "\u0301\u0316" * 70_000 + " last"
    assert fits(replace(RECORD, record=orjson.dumps({"title": title}).decode())) == is_found
    longest = "x " * (TITLE.code_points // 2 - 2) + "last"
    assert titled("last")[0](replace(RECORD, record=orjson.dumps({"title": longest}).decode()))
