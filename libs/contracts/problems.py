"""Validation problems of a body, member by member: shared by everything that checks one."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from libs.tally.errors import TallyError

MAX_PROBLEMS: Final = 20
"""An answer names no more of them."""
MAX_FAULTS: Final = 1_000
"""A body with more is refused without naming any: naming one takes microseconds, and a caller may send hundreds
of thousands."""


class Problem(NamedTuple):
    """One thing that is wrong. `pointer` is an RFC 6901 pointer into the body ("" for the whole of it)."""

    pointer: str
    message: str


class ValidationFailed(TallyError):
    """The body, or a parameter, is well-formed but not acceptable; `errors` names the first `MAX_PROBLEMS`."""

    code = "validation_failed"

    def __init__(self, problems: Iterable[Problem], message: str = "") -> None:
        listed = [problem._asdict() for problem in islice(problems, MAX_PROBLEMS)]
        first = listed[0] if listed else {"pointer": "", "message": "not acceptable"}
        where = f"{first['pointer']}: " if first["pointer"] else ""
        super().__init__(message or f"{where}{first['message']}", errors=listed)


def pointer(*steps: str | int) -> str:
    """The RFC 6901 pointer to a member."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def faults(error: ValidationError) -> Sequence[ErrorDetails]:
    """The errors in a body, without what it holds. Raises `ValidationFailed` for more than `MAX_FAULTS`."""
    if error.error_count() > MAX_FAULTS:
        raise ValidationFailed([Problem("", f"more than {MAX_FAULTS:,} members are not acceptable")])
    return error.errors(include_url=False, include_input=False, include_context=False)
