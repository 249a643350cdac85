"""Query parameters of single resources' lists: filters by their members, and orders."""

import re
import time
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import Query
from pydantic import AfterValidator

from libs.catalogue.contests.contest_mapper import phase_of
from libs.catalogue.schemas.content import ArticleType
from libs.catalogue.schemas.contest import ContestType, Status
from libs.contracts.catalogue_events import Stored
from libs.tally.contest import Phase
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.catalogue.catalogue_views import Order

Fits = Callable[[Stored], bool]
WORD: Final = re.compile(r"\b\w+")


class ListSelection(NamedTuple):
    """The records of a list and their order, newest first by default; `by_votes` is the order of the counts."""

    fits: Fits | None = None
    order: Order = "created"
    by_votes: bool = False

    @property
    def has_order(self) -> bool:
        return self.by_votes or self.order != "created"


def _require_word(text: str) -> str:
    if not _words(text):
        raise ValueError("must have a word")
    return text


Words = Annotated[
    str | None,
    AfterValidator(_require_word),
    Query(
        min_length=1,
        max_length=100,
        description="Records whose title has a word that begins with each of these words, in any order and case.",
    ),
]
PhaseIs = Annotated[Phase | None, Query(description="Contests in this phase now.")]
ContestTypeIs = Annotated[ContestType | None, Query(description="Contests of this `contest_type`.")]
StatusIs = Annotated[Status | None, Query(description="Participants with this status.")]
ParticipantsBy = Annotated[
    Literal["running_number", "votes"] | None,
    Query(
        description="`running_number`: ascending. `votes`: by `vote_count`, most first, as counted at the "
        "request of each page; needs `results:read` and, while the counts are hidden, `results:read_hidden`."
    ),
]
TimeslotsBy = Annotated[
    Literal["start"] | None, Query(description="`start`: ascending, timeslots without a start at the end.")
]
ArticleTypeIs = Annotated[ArticleType | None, Query(description="Articles of this type.")]
IsTemplate = Annotated[bool, Query(description="Only templates; without it, none.")]
Scheduled = Annotated[bool, Query(description="Only articles with `publish` in the future; without it, none.")]


async def contests(phase: PhaseIs = None, type: ContestTypeIs = None, q: Words = None) -> ListSelection:
    now, wanted = _now(), titled(q)
    if type is not None:
        wanted.append(lambda stored: stored.document.get("contest_type", "voteonly") == type)
    if phase is not None:
        wanted.append(lambda stored: phase_of(stored.document, now) == phase)
    return ListSelection(together(wanted))


async def participants(status: StatusIs = None, q: Words = None, order: ParticipantsBy = None) -> ListSelection:
    wanted = titled(q)
    if status is not None:
        wanted.append(lambda stored: stored.document.get("status", "approved") == status)
    numbered: Order = "running_number" if order == "running_number" else "created"
    return ListSelection(together(wanted), numbered, by_votes=order == "votes")


async def timeslots(order: TimeslotsBy = None) -> ListSelection:
    return ListSelection(order="created" if order is None else "sort_key")


async def articles(
    type: ArticleTypeIs = None, q: Words = None, is_template: IsTemplate = False, scheduled: Scheduled = False
) -> ListSelection:
    now, wanted = _now(), titled(q)
    if type is not None:
        wanted.append(lambda stored: stored.document.get("type", "normal") == type)

    def is_listed(stored: Stored) -> bool:
        document, publish = stored.document, stored.document.get("publish")
        ahead = publish is not None and microseconds(parse_timestamp(publish)) > now
        return ahead == scheduled and bool(document.get("is_template")) == is_template

    return ListSelection(together([is_listed, *wanted]))


async def everything() -> ListSelection:
    return ListSelection()


FILTERS: Final[Mapping[str, Callable[..., Awaitable[ListSelection]]]] = {
    "contests": contests,
    "participants": participants,
    "timeslots": timeslots,
    "articles": articles,
}
"""Dependencies by resource; the lists of all others have no parameters of their own."""


def titled(words: str | None) -> list[Fits]:
    """Return the condition that each of the words begins a word of a record's title; none without words."""
    wanted = _words(words or "")

    def fits(stored: Stored) -> bool:
        title = _words(stored.document.get("title") or "")
        return all(any(word.startswith(prefix) for word in title) for prefix in wanted)

    return [fits] if wanted else []


def together(wanted: Sequence[Fits]) -> Fits | None:
    """Return whether all of the conditions hold; None without any."""
    return (lambda stored: all(fits(stored) for fits in wanted)) if wanted else None


def _words(text: str) -> list[str]:
    """Split into words without case and accents."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return WORD.findall(plain.casefold())


def _now() -> int:
    return time.time_ns() // 1000
