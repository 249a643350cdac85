"""The prose of the code: docstrings that start with a verb or a name, and words of the field."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py"))
OPENING = re.compile(r"(What|How|Which|Whether|Where)\b")
PHRASES = re.compile(r"\b(anew|in front of|parted by)\b", re.IGNORECASE)
"""The words for these are: again, before, separated by."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every docstring, also those after a constant or a field."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every comment."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_docstring_starts_with_a_verb_or_a_name(path: Path) -> None:
    found = [(line, text[:60]) for line, text in docstrings(path.read_text()) if OPENING.match(text.lstrip())]
    assert not found, "Start with a verb, or with the standard name of the thing."


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_prose_uses_the_words_of_the_field(path: Path) -> None:
    prose = [*docstrings(path.read_text()), *comments(path)]
    found = [(line, match[0]) for line, text in prose for match in PHRASES.finditer(text)]
    assert not found, "Write again, before, or separated by."
