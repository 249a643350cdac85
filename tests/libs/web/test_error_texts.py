"""Error messages contain no internal terms."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from libs.web.errors import TABLE
from tests.support.openapi import read_tracked

ROOT = Path(__file__).parents[3]
INNER = re.compile(
    r"\b(fold(s|ed|ing)?|unfolded|views?|gates?|fence[sd]?|fencing|generations?|projectors?|doubt|incarnations?)\b",
    re.IGNORECASE,
)
FOR_OPERATORS = (
    "projection",
    "monitoring",
    "deployment",
    "projector",
    "audit",
    "backup",
    "replay",
    "local_stack",
    "cli",
)
"""Packages whose errors only logs and commands show."""
ANSWERS_OF_OPERATORS = re.compile(
    "ProjectionName|ProjectionTotals|GenerationStatus|OperationsStatus|OtherGeneration|PartitionStatus|HealthProblem"
)


def inner_words(texts: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Those of the texts that use such words, by their places."""
    return {where: text for where, text in texts if INNER.search(text)}


def raised() -> Iterator[tuple[str, str]]:
    """The literal parts of every message in a `raise`, but not of its cause."""
    for path in sorted([*(ROOT / "libs").rglob("*.py"), *(ROOT / "services").rglob("*.py")]):
        if path.relative_to(ROOT).parts[1] in FOR_OPERATORS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = [each for argument in node.exc.args for each in ast.walk(argument)]
                words = [each.value for each in texts if isinstance(each, ast.Constant)]
                yield f"{path.relative_to(ROOT)}:{node.lineno}", " ".join(map(str, words))


def described(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every description, summary and title below `value`, but titles that a schema derives from a name."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from described(each, f"{where}/{index}")
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in ("description", "summary", "detail") and isinstance(each, str):
                yield f"{where}/{name}", each
            else:
                yield from described(each, f"{where}/{name}")


def test_no_title_of_an_error_uses_an_inner_word() -> None:
    assert inner_words((code, row.title) for code, row in TABLE.items()) == {}


def test_no_message_of_an_error_uses_an_inner_word() -> None:
    assert inner_words(raised()) == {}


def test_no_text_of_the_description_uses_an_inner_word_but_the_operators_status() -> None:
    document = read_tracked()
    schemas = document["components"]["schemas"]
    for name in [name for name in schemas if ANSWERS_OF_OPERATORS.fullmatch(name)]:
        del schemas[name]
    assert inner_words(described(document)) == {}
