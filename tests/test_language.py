"""The language rules: docstrings and comments start with a verb or a name, in the words of the field."""

import ast
import re
import tokenize
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("libs", "services", "tests")
OPENING = re.compile(r"(What|How|Which|Whether|Where)\b")
PHRASES = re.compile(r"\b(anew|in front of|parted by)\b", re.IGNORECASE)
"""The words for these are: again, before, separated by."""
PERSONS = re.compile(r"\b(whoever|somebody|anybody|everybody|nobody)\b", re.IGNORECASE)
"""The words for these are: the caller, a client, a process, no other vote."""
PERCEPTION = re.compile(r"\b(tells|told|hears?|heard|believes?|sees to)\b", re.IGNORECASE)
"""The words for these are: sends, answers, receives, expects."""
NAMES = re.compile(r"told|heard|anybody|somebody|whoever|anew", re.IGNORECASE)
"""Parts of identifiers; the words for these are those above."""
MARKERS = {".lua": "--", ".js": r"//|/\*+", ".css": r"/\*+", ".md": "", ".yml": "", ".yaml": "#", ".sh": "#"}
"""Markers of comments by suffix; "" for files of which all lines are prose, or have some, as alerts do."""


@cache
def sources() -> dict[Path, str]:
    """Return the text of every Python file but this one that has one of the words anywhere."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path.relative_to(ROOT): path.read_text() for path in files if path != Path(__file__)}
    words = (OPENING, PHRASES, PERSONS, PERCEPTION, NAMES)
    return {path: text for path, text in texts.items() if any(each.search(text) for each in words)}


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of the sources."""
    return {path: ast.parse(source) for path, source in sources().items()}


@cache
def docstrings() -> list[tuple[Path, int, str]]:
    """Return the path, line and text of every docstring, also those after a constant or a field."""
    return [
        (path, node.lineno, node.value.value)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


@cache
def comments() -> list[tuple[Path, int, str]]:
    """Return the path, line and text of every comment."""
    return [
        (path, token.start[0], token.string)
        for path, source in sources().items()
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]


@cache
def identifiers() -> set[tuple[Path, int, str]]:
    """Return the path, line and name of every definition, parameter and variable."""
    found: set[tuple[Path, int, str]] = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add((path, node.lineno, name))
                case ast.arg(arg=name) | ast.Name(id=name):
                    found.add((path, node.lineno, name))
    return found


@cache
def other_prose() -> list[tuple[Path, int, str, bool]]:
    """Return the path, line and text of every comment and document of the product outside of Python.

    The last value is true if the line is the first one of its comment.
    """
    found = []
    files = (path for name in ("libs", "services", "deploy") for path in sorted((ROOT / name).rglob("*")))
    for path in (ROOT / "README.md", *files):
        if path.suffix in MARKERS:
            marker = re.compile(rf"(?:^|\s)(?:{MARKERS[path.suffix]})\s*(\S.*)")
            lines = [marker.search(line) for line in path.read_text().splitlines()]
            found += [
                (path.relative_to(ROOT), number, line[1], before is None)
                for number, (before, line) in enumerate(pairwise([None, *lines]), 1)
                if line is not None
            ]
    return found


def test_a_docstring_starts_with_a_verb_or_a_name() -> None:
    found = [f"{path}:{line}: {text[:60]}" for path, line, text in docstrings() if OPENING.match(text.lstrip())]
    assert found == [], "Start with a verb, or with the standard name of the thing."


def test_a_comment_starts_with_a_verb_or_a_name() -> None:
    code = [row for row in other_prose() if row[0].suffix in {".lua", ".js", ".css"}]
    found = [f"{path}:{line}: {text[:60]}" for path, line, text, first in code if first and OPENING.match(text)]
    assert code
    assert found == [], "Start with a verb, or with the standard name of the thing."


def test_prose_uses_the_words_of_the_field() -> None:
    prose = [*docstrings(), *comments(), *(row[:3] for row in other_prose())]
    found = [f"{path}:{line}: {match[0]}" for path, line, text in prose for match in PHRASES.finditer(text)]
    assert found == [], "Write again, before, or separated by."


def test_prose_names_the_acting_party() -> None:
    prose = [*docstrings(), *comments(), *(row[:3] for row in other_prose())]
    found = [f"{path}:{line}: {match[0]}" for path, line, text in prose for match in PERSONS.finditer(text)]
    assert found == [], "Write the caller, a client, a process, an operator."


def test_software_sends_and_receives() -> None:
    prose = [*docstrings(), *comments(), *(row[:3] for row in other_prose())]
    found = [f"{path}:{line}: {match[0]}" for path, line, text in prose for match in PERCEPTION.finditer(text)]
    assert found == [], "Write send, answer, receive, read, expect."


def test_identifiers_are_words_of_the_field() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, line, name in identifiers()
        if any(NAMES.fullmatch(word) for word in name.split("_"))
    ]
    assert found == [], "Name the thing."
