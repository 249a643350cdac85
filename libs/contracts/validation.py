"""Validation problems of a request body, one per member; shared by all validators."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from libs.tally.errors import TallyError

MAX_PROBLEMS: Final = 20
"""Maximum number of problems in a response."""
MAX_FAULTS: Final = 1_000
"""A body with more faults is rejected without a list: each entry takes microseconds, and a caller can send
hundreds of thousands."""
PATTERN: Final = "String should match pattern '"
"""Start of pydantic's message for a value that does not match; the pattern and an apostrophe follow."""
_EXPLAINED: Final[dict[str, str]] = {}
"""Messages by regular expression."""
LEAST_INTEGER: Final = -(2**63)
LARGEST_INTEGER: Final = 2**64 - 1


class Problem(NamedTuple):
    """One problem. `pointer` is an RFC 6901 pointer into the body ("" for the whole body).

    A problem of a query parameter or header has its name as `parameter` instead.
    """

    pointer: str
    message: str
    parameter: str = ""

    def shown(self) -> dict[str, str]:
        """Return the members of the response."""
        place = {"parameter": self.parameter} if self.parameter else {"pointer": self.pointer}
        return place | {"message": self.message}


class ValidationFailed(TallyError):
    """The body or a parameter is well-formed but invalid; `errors` lists the first `MAX_PROBLEMS`, one for each
    member."""

    code = "validation_failed"

    def __init__(self, problems: Iterable[Problem], message: str = "") -> None:
        found: dict[str, Problem] = {}
        for problem in problems:
            if len(found) == MAX_PROBLEMS:
                break
            found.setdefault(problem.pointer or problem.message, problem)
        first = next(iter(found.values()), Problem("", "not acceptable"))
        where = f"{first.pointer}: " if first.pointer else ""
        super().__init__(
            message or f"{where}{first.message}", errors=[problem.shown() for problem in found.values()]
        )


def pointer(*steps: str | int) -> str:
    """Return the RFC 6901 pointer to a member."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def faults(error: ValidationError) -> Sequence[ErrorDetails]:
    """Return the errors of a body, without its values. Raises `ValidationFailed` for more than `MAX_FAULTS`."""
    if error.error_count() > MAX_FAULTS:
        raise ValidationFailed([Problem("", f"more than {MAX_FAULTS:,} members are not acceptable")])
    found = error.errors(include_url=False, include_input=False, include_context=False)
    for each in found:
        if each["type"] == "string_pattern_mismatch":
            each["msg"] = _EXPLAINED.get(each["msg"].partition(PATTERN)[2][:-1], each["msg"])
    return found


def explained(pattern: str, text: str) -> str:
    """Return `pattern`, after noting the message for values that it does not match."""
    _EXPLAINED[pattern] = text
    return pattern


def wide_integers(value: Any) -> list[Problem]:
    """Return a problem for each integer in parsed JSON that exceeds 64 bits, which storage would change."""
    return list(islice(_wide_integers(value, ()), MAX_PROBLEMS)) if _has_wide_integer(value) else []


def _has_wide_integer(value: Any) -> bool:
    """Search without pointers, which cost more than the search itself."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
        elif isinstance(one, int) and not LEAST_INTEGER <= one <= LARGEST_INTEGER:
            return True
    return False


def _wide_integers(value: Any, steps: tuple[str | int, ...]) -> Iterator[Problem]:
    match value:
        case dict():
            for name, child in value.items():
                yield from _wide_integers(child, (*steps, name))
        case list():
            for index, child in enumerate(value):
                yield from _wide_integers(child, (*steps, index))
        case int() if not LEAST_INTEGER <= value <= LARGEST_INTEGER:
            yield Problem(pointer(*steps), "must be an integer of at most 64 bits")
