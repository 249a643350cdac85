"""One renderer for results: on a terminal, in a file, and as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO

import orjson
import pytest
from rich.console import Console
from rich.text import Text

from services.cli.output import Block, Result, Rows, as_json, cell, show

PEOPLE = [{"name": "Ann Lee", "votes": 1234, "note": None}, {"name": "Bob", "votes": 5, "note": "late"}]


def printed(blocks: Iterable[Block], *, terminal: bool = False, width: int = 40) -> list[str]:
    file = StringIO()
    show(blocks, Console(file=file, force_terminal=terminal, width=width, color_system=None))
    return file.getvalue().splitlines()


def test_rows_are_a_table_in_a_file_however_wide_and_on_a_terminal_with_numbers_to_the_right() -> None:
    table = ["name    votes note", "Ann Lee 1,234", "Bob         5 late"]
    assert printed([Rows(PEOPLE)]) == table
    assert [line[:13].rstrip() for line in printed([Rows(PEOPLE)], terminal=True)] == [line[:13] for line in table]
    wide: list[dict[str, object]] = [{"text": "word " * 30, "last": "end"}]
    assert printed([Rows(wide, fit=True)], width=40)[1].endswith("word  end")


def test_a_table_names_the_columns_that_it_has_no_room_for() -> None:
    wide = [{"name": "Ann", "votes": 1, "state": "running", "end": "2026-05-01T18:00:00Z", "account": "shows"}]
    lines = printed([Rows(wide, fit=True)], terminal=True, width=30)
    assert lines[0].split() == ["name", "votes", "state"]
    assert " ".join(" ".join(lines[2:]).split()).startswith("Hidden at this width: end, account.")


def test_a_table_without_room_for_all_columns_becomes_records() -> None:
    wide = [{"key": "k" * 24, "last_used": "2026-05-01T18:00:00Z", "rate": rate} for rate in (50, None)]
    assert [line.rstrip() for line in printed([Rows(wide)], terminal=True, width=40)] == [
        f"key       {'k' * 24}",
        "last used 2026-05-01T18:00:00Z",
        "rate      50",
        "",
        f"key       {'k' * 24}",
        "last used 2026-05-01T18:00:00Z",
        "",
    ]


def test_a_long_title_hides_no_column_and_is_shown_whole() -> None:
    words = [{"title": "Grand " * 20 + "Final", "key": "k" * 24, "votes": 7}]
    lines = printed([Rows(words, fit=True)], terminal=True, width=80)
    assert lines[0].split() == ["title", "key", "votes"]
    unbroken = [{"title": "x" * 124, "key": "k" * 24, "state": "running", "votes": 7}]
    for width in (80, 120):
        text = "\n".join(printed([Rows(unbroken, fit=True)], terminal=True, width=width))
        assert text.count("x") == 124
        assert "k" * 24 in text
        assert "running" in text


def test_no_width_cuts_a_key_a_time_or_a_word() -> None:
    keys = [
        {
            "key_id": "f67760d7d5efafa6",
            "created": "2026-11-24T13:13:44.653638Z",
            "permissions": ["content:read", "content:write", "results:read_hidden", "purchases:write"],
            "name": "Development key of tally up",
            "rate": 0,
            "parent": parent,
        }
        for parent in (None, "0123456789abcdef")
    ]
    words = {word for row in keys for value in row.values() for word in cell(value).split()}
    for width in range(60, 200):
        lines = printed([Rows(keys)], terminal=True, width=width)
        assert max(map(len, lines)) <= width
        assert words <= {word for line in lines for word in line.split()}, width


def test_addresses_are_never_wrapped_and_sentences_are_on_a_terminal() -> None:
    words = "word " * 20
    assert printed([words], terminal=True) == [words]
    assert max(map(len, printed([Text(words)], terminal=True))) <= 40
    assert printed([Text(words)]) == [words]


@dataclass(frozen=True, slots=True)
class Shelf:
    place: str
    books: list[dict[str, object]]
    is_full: bool


def test_a_listing_is_a_table_of_the_named_members() -> None:
    assert printed(Result.listing("books", [Shelf("left", PEOPLE, True)], "is_full place").text) == [
        "is full place",
        "yes     left",
    ]
    empty = Result.listing("books", [])
    assert (printed(empty.text), as_json(empty.members)) == (["No books."], '{"books":[]}')


HOSTILE = [
    "Final\n2026-01-01T00:00:00Z  operator root  contest deleted",
    "Final\r\x1b[2J\x1b]8;;https://evil.example\x07here",
    "\u202elanif\u202c \u2066x\u2069 \u061c",
    "a\u2028b\u2029c\x85d\x9b2J\x00",
    "\ud800",
]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("title", HOSTILE, ids=ascii)
def test_no_text_of_a_client_forges_a_line_or_controls_a_terminal(title: str, terminal: bool) -> None:
    """In lines, cells, nested members and styled texts; escaped, so that it can be told what was there."""
    blocks: list[Block] = [
        f"deleted {title}",
        Text.assemble("deleted ", (title, "bold")),
        Rows([{"title": title, "change": {"old": title}, "styled": Text(title, style="dim")}]),
    ]
    for block in blocks:
        lines = printed([block], terminal=terminal, width=1000)
        assert len(lines) == (2 if isinstance(block, Rows) else 1)
        assert all(line.isprintable() for line in lines)
    [line] = printed(blocks[:1], terminal=terminal, width=1000)
    assert all(ascii(character)[1:-1] in line for character in title if not character.isprintable())


def test_json_has_texts_as_they_are() -> None:
    assert [orjson.loads(as_json({"title": title})) for title in HOSTILE[:-1]] == [
        {"title": title} for title in HOSTILE[:-1]
    ]


def test_titles_of_all_languages_are_shown_as_they_are() -> None:
    titles = ["Zoë\xa0& Ünal", "می\u200cخواهم", "👩\u200d🎤", "北京\u3000決勝"]
    assert printed(titles) == titles


def test_a_text_keeps_its_styles_around_what_is_escaped() -> None:
    text = Text.assemble("ended ", ("Final\x1b", "bold"), " now")
    shown = StringIO()
    show([text], Console(file=shown, force_terminal=True, width=80, color_system="standard"))
    assert "\x1b[1mFinal" in shown.getvalue()
    assert "\\x1b now" in shown.getvalue()
