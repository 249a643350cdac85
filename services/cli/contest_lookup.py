"""Contests by key or title, and the titles of a contest and its participants."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from typer import BadParameter

from libs.audit.recount import titles_of
from libs.catalogue.api_keys import list_keys
from libs.catalogue.resource_table import CONTESTS
from libs.contracts.catalogue_events import Stored
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Catalogue
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.views.catalogue.catalogue_views import DELETED_CONTESTS, Order

PAGE: Final = 500
MOST_NAMED: Final = 5
"""Contests of the same title that an error lists."""


@dataclass(frozen=True, slots=True)
class Titles:
    """Titles of a contest and, by key, of its participants; empty for a contest that was deleted."""

    contest: str
    title: str = ""
    participants: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return named(self.contest, self.title)

    def of(self, participant: str) -> str:
        return self.participants.get(participant, "")


def named(key: str, title: str) -> str:
    """Return the title with the key, or the key of a record without a title."""
    return f"{title} ({key})" if title else key


async def read_titles(deployment: Deployment, contest: str) -> Titles:
    """Return the contest's current titles; without the catalogue's views, none."""
    try:
        _, config = await deployment.catalogue.contest(contest)
    except (NotFound, ViewsUnavailable):
        return Titles(contest)
    title = "" if config.contest is None else config.contest.document.get("title") or ""
    return Titles(contest, title, titles_of(config))


async def titles_by_key(deployment: Deployment, contests: Iterable[str]) -> dict[str, str]:
    """Return the titles of the contests and of their participants."""
    found: dict[str, str] = {}
    for contest in set(contests):
        titles = await read_titles(deployment, contest)
        found |= {contest: titles.title, **titles.participants}
    return found


async def find_contest(deployment: Deployment, given: str) -> str:
    """Return the key of the contest with this key or title, ignoring case; an unknown name is returned as it is.

    The log may still hold a deleted contest, so commands themselves refuse an unknown key. Raises `BadParameter`
    if several contests have the title.
    """
    try:
        if await deployment.catalogue.views.find_owner(CONTESTS.name, given) is not None:
            return given
        entitled = [
            stored.key async for _, stored in all_contests(deployment.catalogue) if _is_title(stored, given)
        ]
    except ViewsUnavailable:  # The log alone suffices for some commands.
        return given
    if len(entitled) > 1:
        keys = ", ".join(entitled[:MOST_NAMED]) + (", ..." if len(entitled) > MOST_NAMED else "")
        raise BadParameter(
            f"{len(entitled)} contests have the title {given}; give one of the keys: {keys}", param_hint="CONTEST"
        )
    return entitled[0] if entitled else given


async def all_contests(catalogue: Catalogue, *, deleted: bool = False) -> AsyncIterator[tuple[str, Stored]]:
    """Yield each contest with its account, newest first within an account, for the accounts that have API keys.

    The `deleted` ones, by the time of the deletion, or all others.
    """
    views = catalogue.views
    for account in sorted({key.account for key in await list_keys(views)}):
        after: int | str = ""
        resource = DELETED_CONTESTS if deleted else CONTESTS.name
        order: Order = "updated" if deleted else "created"
        while page := await views.page(account, resource, order=order, after=after, limit=PAGE):
            for stored in page:
                yield account, stored
            after = page[-1].updated if deleted else page[-1].created


def _is_title(stored: Stored, given: str) -> bool:
    return str(stored.document.get("title") or "").strip().casefold() == given.strip().casefold()
