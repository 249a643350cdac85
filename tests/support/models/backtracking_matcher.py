"""A slow, simple backtracking matcher like the one of `re`: it counts steps, as measured times are unreliable."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from re import _constants as op
from re import _parser as parser
from typing import Any

Next = Callable[[int], bool]
CATEGORIES = {
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    op.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    op.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
ALPHABET = [*map(chr, range(32, 127)), *map(chr, range(32)), *map(chr, range(127, 256))]


class TooManySteps(Exception):
    """More steps were taken than the budget allows."""


class Matcher:
    """Counts the nodes and characters tried. Groups capture nothing."""

    def __init__(self, pattern: str, flags: int, text: str, budget: int) -> None:
        self.tree = parser.parse(pattern, flags)
        self.text, self.budget, self.steps = text, budget, 0
        self.ignores_case = bool(self.tree.state.flags & re.IGNORECASE)

    def count(self, *, searches: bool) -> int:
        """Count the steps of a match that always fails at its end: at the start, or from every position."""
        for start in range(len(self.text) + 1 if searches else 1):
            self._sequence(list(self.tree), 0, start, lambda _: False)
        return self.steps

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.budget:
            raise TooManySteps

    def _sequence(self, nodes: Sequence[Any], index: int, at: int, then: Next) -> bool:
        if index == len(nodes):
            return then(at)
        code, argument = nodes[index]
        return self._node(code, argument, at, lambda end: self._sequence(nodes, index + 1, end, then))

    def _node(self, code: Any, argument: Any, at: int, then: Next) -> bool:
        self._step()
        if code in REPEATS:
            return self._repeat(code, argument, at, then)
        if code is op.SUBPATTERN:
            return self._sequence(list(argument[-1]), 0, at, then)
        if code is op.BRANCH:
            return any(self._sequence(list(each), 0, at, then) for each in argument[1])
        if code in (op.ASSERT, op.ASSERT_NOT):
            found = self._sequence(list(argument[1]), 0, at, lambda _: True)
            return found is (code is op.ASSERT) and then(at)
        if code is op.AT:
            return self._at(argument, at) and then(at)
        if code is op.ATOMIC_GROUP:
            ends: list[int] = []

            def remember(end: int) -> bool:
                ends.append(end)
                return True

            return self._sequence(list(argument), 0, at, remember) and then(ends[0])
        return at < len(self.text) and takes(code, argument, self.text[at], self.ignores_case) and then(at + 1)

    def _repeat(self, code: Any, argument: Any, at: int, then: Next) -> bool:
        """Match a repetition of a character or a group: greedy, lazy or possessive."""
        least, most, body = argument
        nodes = list(body)
        if len(nodes) == 1 and nodes[0][0] in SINGLE:
            (single, its), end = nodes[0], at
            while (
                end - at < most and end < len(self.text) and takes(single, its, self.text[end], self.ignores_case)
            ):
                self._step()
                end += 1
            if end - at < least:
                return False
            ends = range(end, at + least - 1, -1)
            order = ends[:1] if code is op.POSSESSIVE_REPEAT else ends if code is op.MAX_REPEAT else ends[::-1]
            for each in order:
                self._step()
                if then(each):
                    return True
            return False

        def again(times: int, here: int) -> bool:
            self._step()

            def more(end: int) -> bool:
                return end > here and again(times + 1, end)

            tries = [lambda: times < most and self._sequence(nodes, 0, here, more)]
            tries.append(lambda: times >= least and then(here))
            return any(each() for each in (tries if code is not op.MIN_REPEAT else tries[::-1]))

        return again(0, at)

    def _at(self, where: Any, at: int) -> bool:
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0
        if where in (op.AT_END, op.AT_END_STRING):
            return at == len(self.text)
        words = [0 <= i < len(self.text) and (self.text[i].isalnum() or self.text[i] == "_") for i in (at - 1, at)]
        return (words[0] != words[1]) is (where is op.AT_BOUNDARY)


def takes(code: Any, argument: Any, character: str, ignores_case: bool = False) -> bool:
    """Return whether a node for one character matches `character`."""
    if ignores_case and character.swapcase() != character:
        return takes(code, argument, character) or takes(code, argument, character.swapcase())
    if code is op.ANY:
        return True
    if code is op.LITERAL:
        return bool(ord(character) == argument)
    if code is op.NOT_LITERAL:
        return bool(ord(character) != argument)
    if code is op.RANGE:
        return bool(argument[0] <= ord(character) <= argument[1])
    if code is op.CATEGORY:
        return bool(CATEGORIES[argument](character))
    if code is op.IN:
        negated = argument[0][0] is op.NEGATE
        found = any(takes(inner, its, character) for inner, its in argument[negated:])
        return found is not negated
    raise NotImplementedError(code)


SINGLE = (op.ANY, op.LITERAL, op.NOT_LITERAL, op.IN)


def hostile_texts(pattern: str, flags: int) -> Iterator[tuple[str, str]]:
    """Yield prefixes, each with a text to repeat after it.

    A prefix matches the pattern up to one of its repetitions; the text matches a set or the body of that
    repetition.
    """
    tree = parser.parse(pattern, flags)
    pumps = dict.fromkeys([*_characters(tree), *(sample(body) for body in _bodies(tree))])
    for beginning in dict.fromkeys(["", *_beginnings(list(tree), "")]):
        for pump in pumps:
            if pump:
                yield beginning, pump


def sample(nodes: Any) -> str:
    """Return a short text that the nodes match."""
    found = ""
    for code, argument in nodes:
        if code in SINGLE:
            found += next(each for each in ALPHABET if takes(code, argument, each))
        elif code not in (op.ASSERT, op.ASSERT_NOT) and (inner := _inner(code, argument)):
            found += sample(inner[0]) * (max(1, argument[0]) if code in REPEATS else 1)
    return found


def _beginnings(nodes: Sequence[Any], before: str) -> Iterator[str]:
    for code, argument in nodes:
        if code in REPEATS:
            yield before
        if code in (*REPEATS, op.SUBPATTERN, op.BRANCH):
            for inner in _inner(code, argument):
                yield from _beginnings(list(inner), before)
        before += sample([(code, argument)])


def _bodies(nodes: Any) -> Iterator[Any]:
    for code, argument in nodes:
        if code in REPEATS:
            yield argument[2]
        for inner in _inner(code, argument):
            yield from _bodies(inner)


def _characters(nodes: Any) -> Iterator[str]:
    """Yield the first few members of every set and literal."""
    for code, argument in nodes:
        if code in SINGLE:
            yield from islice((each for each in ALPHABET if takes(code, argument, each)), 3)
        for inner in _inner(code, argument):
            yield from _characters(inner)


def _inner(code: Any, argument: Any) -> list[Any]:
    """Return the sequences of nodes within a node; of a branch each of its alternatives."""
    if code in REPEATS or code is op.SUBPATTERN:
        return [argument[-1]]
    if code is op.BRANCH:
        return list(argument[1])
    return [argument] if code is op.ATOMIC_GROUP else [argument[1]] if code in (op.ASSERT, op.ASSERT_NOT) else []
