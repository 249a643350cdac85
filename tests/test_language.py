"""The language rules: docstrings start with a verb or a name, in the words of the field."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("libs", "services", "tests")
OPENING = re.compile(r"(What|How|Which|Whether|Where)\b")
PHRASES = re.compile(r"\b(anew|in front of|parted by)\b", re.IGNORECASE)
"""The words for these are: again, before, separated by."""


@cache
def sources() -> dict[Path, bytes]:
    """Return the text of every Python file but this one."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT): path.read_bytes() for path in files if path != Path(__file__)}


@cache
def docstrings() -> list[tuple[Path, int, str]]:
    """Return the path, line and text of every docstring, also those after a constant or a field."""
    return [
        (path, node.lineno, node.value.value)
        for path, source in sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def comments() -> Iterator[tuple[Path, int, str]]:
    """Yield the path, line and text of every comment."""
    for path, source in sources().items():
        for token in tokenize.tokenize(iter(source.splitlines(keepends=True)).__next__):
            if token.type == tokenize.COMMENT:
                yield path, token.start[0], token.string


def test_a_docstring_starts_with_a_verb_or_a_name() -> None:
    found = [f"{path}:{line}: {text[:60]}" for path, line, text in docstrings() if OPENING.match(text.lstrip())]
    assert found == [], "Start with a verb, or with the standard name of the thing."


def test_prose_uses_the_words_of_the_field() -> None:
    prose = [*docstrings(), *comments()]
    found = [f"{path}:{line}: {match[0]}" for path, line, text in prose for match in PHRASES.finditer(text)]
    assert found == [], "Write again, before, or separated by."
