"""Validation problems of a request body, one per member, and of parameters; shared by all validators."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from libs.contracts.size_check import excesses
from libs.tally.errors import TallyError

MAX_PROBLEMS: Final = 20
"""Maximum number of problems in a response."""
MAX_FAULTS: Final = 1_000
"""A body with more faults is rejected without a list: each entry takes microseconds, and a caller can send
hundreds of thousands."""
PATTERN: Final = "String should match pattern '"
"""Start of pydantic's message for a value that does not match; the pattern and an apostrophe follow."""
UNKNOWN_MEMBER: Final = "is not a known member"
MOST_NAMED: Final = 10
"""Largest number of an object's members that a message names."""
LONGEST_NAME: Final = 64
"""Names longer than any member are not compared with those: a caller decides how long they are."""
SHOULD: Final = re.compile(r"^\w+ should ")
"""Start of pydantic's messages about a value, which is named otherwise."""
_EXPLAINED: Final[dict[str, str]] = {}
"""Messages by regular expression."""
LEAST_INTEGER: Final = -(2**63)
LARGEST_INTEGER: Final = 2**64 - 1
M = TypeVar("M", bound=BaseModel)


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


def likely(given: str, names: Iterable[str]) -> str:
    """Return "; did you mean NAME?" with the most similar of the names, "" if none is similar."""
    similar = get_close_matches(given, list(names), n=1) if len(given) <= LONGEST_NAME else []
    return f"; did you mean {similar[0]}?" if similar else ""


def faults(error: ValidationError, model: type[BaseModel]) -> Sequence[ErrorDetails]:
    """Return the errors of a model's body, without its values.

    The first unknown members come with the likely name. Raises `ValidationFailed` for more than `MAX_FAULTS`.
    """
    refuse_many(error.error_count())
    found = error.errors(include_url=False, include_input=False, include_context=False)
    for index, each in enumerate(found):
        each["msg"] = _explanation(each)
        if each["type"] == "extra_forbidden":
            *place, name = each["loc"]
            named = likely(str(name), _members_at(model, place)) if index < MAX_PROBLEMS else ""
            each["msg"] = UNKNOWN_MEMBER + named
        elif each["type"] == "model_type":
            members = _members_at(model, each["loc"]) if index < MAX_PROBLEMS else set()
            named = f" with the members {', '.join(sorted(members))}" if 0 < len(members) <= MOST_NAMED else ""
            each["msg"] = f"must be an object{named}"
    return found


def refuse_many(count: int) -> None:
    """Raise `ValidationFailed` for more than `MAX_FAULTS` faults."""
    if count > MAX_FAULTS:
        raise ValidationFailed([Problem("", f"more than {MAX_FAULTS:,} members are not acceptable")])


def _explanation(fault: Mapping[str, Any]) -> str:
    message: str = fault["msg"]
    if fault["type"] == "string_pattern_mismatch":
        return _EXPLAINED.get(message.partition(PATTERN)[2][:-1], message)
    return message.removeprefix("Value error, ")


def _members_at(model: type[BaseModel], place: Iterable[int | str]) -> set[str]:
    """Return the names of the members at a place in a model's body; none where there is no model."""
    models = [model]
    for step in place:
        if isinstance(step, str):  # an item of a list has the members of the list's type
            fields = (field for each in models for name, field in _fields(each) if name == step)
            models = [found for field in fields for found in _models_in(field.annotation)]
    return {name for each in models for name, _ in _fields(each)}


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    return ((field.alias or name, field) for name, field in model.model_fields.items())


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def checked(schema: type[M], body: Any, others: Iterable[Problem] = (), before: Any = None) -> M:
    """Parse `body` as `schema`. Raises `ValidationFailed` with `others` first, then all problems of the body.

    Values larger than their limits are refused, unless those of the document `before` are as large. Unknown
    members are counted before they are validated, which takes a microsecond for each.
    """
    if schema.model_config.get("extra") == "forbid" and isinstance(body, dict):
        refuse_many(len(body) - len(schema.model_fields))
    too_large = (Problem(pointer(*steps), message) for steps, message in excesses(schema, body, before))
    problems = [*others, *wide_integers(body), *islice(too_large, MAX_PROBLEMS)]
    try:
        parsed = schema.model_validate(body)
    except ValidationError as error:
        raise ValidationFailed([*problems, *problems_in(error, schema)]) from None
    if problems:
        raise ValidationFailed(problems)
    return parsed


def problems_in(error: ValidationError, schema: type[BaseModel]) -> list[Problem]:
    """Return the problems with RFC 6901 pointers. Raises `ValidationFailed` for more than `MAX_FAULTS`."""
    return [Problem(pointer(*_steps(found["loc"])), found["msg"]) for found in faults(error, schema)]


def _steps(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the steps to the value if the problem is an invalid key of a mapping."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def invalid_parameters(errors: Iterable[Mapping[str, Any]]) -> ValidationFailed:
    """Return the error for parameters that pydantic refuses; each problem has the parameter's name."""
    found = []
    for each in errors:
        name, message = str(each["loc"][1]), SHOULD.sub("must ", _explanation(each))
        if each["type"] in ("literal_error", "enum"):
            message = f"must be one of {each['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
        elif each["type"].startswith("bool"):
            message = "must be true or false"
        found.append(Problem("", f"{name} {message}", name))
    return ValidationFailed(found)


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


def no_token() -> ValidationFailed:
    """Return the error for a `next` that is no token of the list."""
    return ValidationFailed([Problem("", "next is not a token of this list: start without it", "next")])
