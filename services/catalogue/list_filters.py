"""Query parameters of single resources' lists: filters by their members, and orders.

Each dependency returns a function that parses the parameters at the time of the request (us): a missing key is
reported before an invalid value. All of them raise `ValidationFailed`.
"""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, get_args

from fastapi import Query
from pydantic import WithJsonSchema

from libs.catalogue.contests.contest_mapper import phase_of
from libs.catalogue.schemas.content import ArticleType
from libs.catalogue.schemas.contest import Contest, Status
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.contest import Phase
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.catalogue.catalogue_views import Order
from libs.web.door.common_parameters import TEXT

Fits = Callable[[Stored], bool]
MOST_SEARCHED: Final = 100
"""Characters of `q`."""
WORD: Final = re.compile(r"\b\w+")
BOOLEANS: Final = {"true": True, "false": False}
FLAG: Final = {"type": "boolean", "default": False}
CONTEST_TYPES: Final = get_args(Contest.model_fields["contest_type"].annotation)
ARTICLE_TYPES: Final = get_args(ArticleType)
STATUSES: Final = get_args(Status)
PHASES: Final = tuple(phase.value for phase in Phase)


class ListSelection(NamedTuple):
    """The records of a list and their order, newest first by default; `by_votes` is the order of the counts."""

    fits: Fits | None = None
    order: Order = "created"
    by_votes: bool = False

    @property
    def has_order(self) -> bool:
        return self.by_votes or self.order != "created"


Select = Callable[[int], ListSelection]


Words = Annotated[
    str | None,
    Query(
        description="Records whose title has a word that begins with each of these words, in any order and case."
    ),
    WithJsonSchema(TEXT | {"minLength": 1, "maxLength": MOST_SEARCHED}),
]
PhaseIs = Annotated[
    str | None, Query(description="Contests in this phase now."), WithJsonSchema(TEXT | {"enum": list(PHASES)})
]
ContestTypeIs = Annotated[
    str | None,
    Query(description="Contests of this `contest_type`."),
    WithJsonSchema(TEXT | {"enum": list(CONTEST_TYPES)}),
]
StatusIs = Annotated[
    str | None,
    Query(description="Participants with this status."),
    WithJsonSchema(TEXT | {"enum": list(STATUSES)}),
]
ParticipantsBy = Annotated[
    str | None,
    Query(
        description="`running_number`: ascending. `votes`: by `vote_count`, most first, as counted at the "
        "request of each page; needs `results:read` and, while the counts are hidden, `results:read_hidden`."
    ),
    WithJsonSchema(TEXT | {"enum": ["running_number", "votes"]}),
]
TimeslotsBy = Annotated[
    str | None,
    Query(description="`start`: ascending, timeslots without a start at the end."),
    WithJsonSchema(TEXT | {"enum": ["start"]}),
]
ArticleTypeIs = Annotated[
    str | None, Query(description="Articles of this type."), WithJsonSchema(TEXT | {"enum": list(ARTICLE_TYPES)})
]
IsTemplate = Annotated[str | None, Query(description="Only templates; without it, none."), WithJsonSchema(FLAG)]
Scheduled = Annotated[
    str | None,
    Query(description="Only articles with `publish` in the future; without it, none."),
    WithJsonSchema(FLAG),
]


async def contests(phase: PhaseIs = None, type: ContestTypeIs = None, q: Words = None) -> Select:
    def select(now: int) -> ListSelection:
        checked("phase", phase, PHASES)
        checked("type", type, CONTEST_TYPES)
        wanted = [titled(q)] if q is not None else []
        if type is not None:
            wanted.append(lambda stored: stored.document.get("contest_type", "voteonly") == type)
        if phase is not None:
            wanted.append(lambda stored: phase_of(stored.document, now) == phase)
        return ListSelection(together(wanted))

    return select


async def participants(status: StatusIs = None, q: Words = None, order: ParticipantsBy = None) -> Select:
    def select(_: int) -> ListSelection:
        checked("status", status, STATUSES)
        wanted = [titled(q)] if q is not None else []
        if status is not None:
            wanted.append(lambda stored: stored.document.get("status", "approved") == status)
        checked("order", order, ("running_number", "votes"))
        numbered: Order = "running_number" if order == "running_number" else "created"
        return ListSelection(together(wanted), numbered, by_votes=order == "votes")

    return select


async def timeslots(order: TimeslotsBy = None) -> Select:
    def select(_: int) -> ListSelection:
        checked("order", order, ("start",))
        return ListSelection(order="created" if order is None else "sort_key")

    return select


async def articles(
    type: ArticleTypeIs = None, q: Words = None, is_template: IsTemplate = None, scheduled: Scheduled = None
) -> Select:
    def select(now: int) -> ListSelection:
        checked("type", type, ARTICLE_TYPES)
        wants_templates, wants_scheduled = flag("is_template", is_template), flag("scheduled", scheduled)
        wanted = [titled(q)] if q is not None else []
        if type is not None:
            wanted.append(lambda stored: stored.document.get("type", "normal") == type)

        def is_listed(stored: Stored) -> bool:
            document, publish = stored.document, stored.document.get("publish")
            ahead = publish is not None and microseconds(parse_timestamp(publish)) > now
            return ahead == wants_scheduled and bool(document.get("is_template")) == wants_templates

        return ListSelection(together([is_listed, *wanted]))

    return select


async def everything() -> Select:
    return lambda _: ListSelection()


FILTERS: Final[Mapping[str, Callable[..., Awaitable[Select]]]] = {
    "contests": contests,
    "participants": participants,
    "timeslots": timeslots,
    "articles": articles,
}
"""Dependencies by resource; the lists of all others have no parameters of their own."""


def titled(words: str) -> Fits:
    """Return whether each of the words begins a word of a record's title."""
    wanted = _words(words)
    if not wanted or len(words) > MOST_SEARCHED:
        raise _no(f"q must have a word and at most {MOST_SEARCHED} characters")

    def fits(stored: Stored) -> bool:
        title = _words(stored.document.get("title") or "")
        return all(any(word.startswith(prefix) for word in title) for prefix in wanted)

    return fits


def checked(name: str, value: str | None, values: Sequence[str]) -> None:
    """Check a parameter that has one of `values`."""
    if value is not None and value not in values:
        raise _no(f"{name} must be one of {', '.join(values)}")


def flag(name: str, value: str | None) -> bool:
    """Return the value of a boolean parameter."""
    found = BOOLEANS.get("false" if value is None else value.lower())
    if found is None:
        raise _no(f"{name} must be true or false")
    return found


def together(wanted: Sequence[Fits]) -> Fits | None:
    """Return whether all of the conditions hold; None without any."""
    return (lambda stored: all(fits(stored) for fits in wanted)) if wanted else None


def _words(text: str) -> list[str]:
    """Split into words without case and accents."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return WORD.findall(plain.casefold())


def _no(message: str) -> ValidationFailed:
    return ValidationFailed([Problem("", message)])
