"""Every regular expression takes at most linear time for any input."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.models.backtracking_matcher import Matcher, TooManySteps, hostile_texts

ROOT = Path(__file__).parents[1]
FUNCTIONS = {"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"}
ANCHORED = {"match", "fullmatch"}
SHORT = 150
MOST_RATIO = 2.4
"""Twice the text: twice the steps where time is linear, four times where it is quadratic."""


class Found(NamedTuple):
    """A regular expression in the source, and whether it is searched for or applied at one position only."""

    place: str
    pattern: str
    flags: int
    searches: bool


class Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.calls: list[tuple[str, ast.Call, str]] = []
        self.assigned = dict[int, str]()

    def visit_Assign(self, node: ast.Assign) -> None:
        self._remember(node.targets[0], node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._remember(node.target, node.value)

    def _remember(self, target: ast.expr, value: ast.expr | None) -> None:
        if value is not None:
            self.assigned |= {id(inner): ast.unparse(target) for inner in ast.walk(value)}
            self.visit(value)

    def visit_Call(self, node: ast.Call) -> None:
        module, _, function = ast.unparse(node.func).rpartition(".")
        if module == "re" and function in FUNCTIONS:
            self.calls.append((function, node, self.assigned.get(id(node), "")))
        self.generic_visit(node)


def sources() -> Iterator[Path]:
    for package in ("libs", "services"):
        yield from sorted((ROOT / package).rglob("*.py"))


def expressions() -> Iterator[Found]:
    """By the source: what is compiled counts as searched for unless every use of its name is anchored."""
    texts = {path: path.read_text() for path in sources()}
    for path, text in texts.items():
        if "import re\n" not in text:
            continue
        visitor = Visitor()
        visitor.visit(ast.parse(text))
        for function, call, name in visitor.calls:
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            given = call.args[: 2 if function == "compile" else 1]
            given += [each.value for each in call.keywords if each.arg == "flags"]
            pattern, *flags = (evaluated(each, vars(module)) for each in given)
            pattern = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
            used = methods_called(name, texts.values()) if name and function == "compile" else {function}
            searches = not used or not used & FUNCTIONS <= ANCHORED
            yield Found(f"{path.relative_to(ROOT)}:{call.lineno}", pattern, sum(map(int, flags)), searches)


def methods_called(name: str, texts: Iterable[str]) -> set[str]:
    called = re.compile(rf"\b{re.escape(name)}\.(\w+)\(")
    return {method for text in texts if f"{name}." in text for method in called.findall(text)}


def evaluated(expression: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), "<source>", "eval"), names)


def worst_ratio(pattern: str, flags: int, searches: bool) -> tuple[float, str]:
    worst, text = 0.0, ""
    for beginning, pump in hostile_texts(pattern, flags):
        steps = []
        for times in (SHORT, 2 * SHORT):
            hostile = beginning + pump * times + "\0"
            try:
                steps.append(Matcher(pattern, flags, hostile, 400 * len(hostile)).count(searches=searches))
            except TooManySteps:
                return float("inf"), beginning + pump
        if steps[1] / steps[0] > worst:
            worst, text = steps[1] / steps[0], beginning + pump
    return worst, text


@pytest.fixture(autouse=True)
def deep_recursion() -> Iterator[None]:
    """The matcher recurses as deep as the repetitions that it has begun."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


def test_every_expression_takes_linear_time() -> None:
    found_in_code = list(expressions())
    assert len(found_in_code) > 20
    for found in found_in_code:
        ratio, text = worst_ratio(found.pattern, found.flags, found.searches)
        assert ratio <= MOST_RATIO, f"{found.place}: {found.pattern!r} on repeated {text!r}"


@pytest.mark.parametrize(
    ("pattern", "searches"),
    [
        (r"(a+)+b", False),
        (r"(a|a)*b", False),
        (r"\s*x*\s*y", False),
        (r'\s*(W/)?("[!-~]*")\s*(?:,|$)', True),
        (r"\{[^}]*\}", True),
        (r"[a-z]+:", True),
    ],
)
def test_what_is_not_linear_is_found(pattern: str, searches: bool) -> None:
    assert worst_ratio(pattern, 0, searches)[0] > MOST_RATIO


def test_schemas_are_matched_by_an_engine_that_never_goes_back() -> None:
    """pydantic's own is linear; the one of Python would have to be asked for."""
    assert [path for path in sources() if "python-re" in path.read_text()] == []
