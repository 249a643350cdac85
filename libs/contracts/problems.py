"""What is wrong with a body, member by member: shared by everything that checks one."""

from collections.abc import Iterable
from typing import NamedTuple

from libs.tally.errors import TallyError


class Problem(NamedTuple):
    """One thing that is wrong. `pointer` is an RFC 6901 pointer into the body ("" for the whole of it)."""

    pointer: str
    message: str


class ValidationFailed(TallyError):
    """The body, or a parameter, is well-formed but not acceptable; `errors` names each member that is not."""

    code = "validation_failed"

    def __init__(self, problems: Iterable[Problem], message: str = "") -> None:
        listed = [problem._asdict() for problem in problems]
        first = listed[0] if listed else {"pointer": "", "message": "not acceptable"}
        where = f"{first['pointer']}: " if first["pointer"] else ""
        super().__init__(message or f"{where}{first['message']}", errors=listed)


def pointer(*steps: str | int) -> str:
    """The RFC 6901 pointer to a member."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
