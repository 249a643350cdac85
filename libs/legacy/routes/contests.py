"""Routes that write contests in the legacy API; the query service reads them."""

import asyncio
from functools import partial
from typing import Any, Final

from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.contest_mapper import contest_of
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.legacy.parameters.contests import CONTEST, SHAPE, ContestPage, contest_read, contest_written
from libs.legacy.parameters.participants import PARTICIPANT, images_of
from libs.legacy.routes.route_builder import Call, LegacyEnvironment, LegacyRoutes
from libs.tally.errors import LogUnavailable, NotFound, TallyError, ViewsUnavailable

AT_ONCE: Final = 500
"""Participants added in one round of writes."""
IMAGE: Final = ("image_id", "image")
"""Members of a participant that name its image."""


class Contests:
    def __init__(self, environment: LegacyEnvironment) -> None:
        self._environment = environment
        self._records = environment.records(CONTESTS, CONTEST)

    def add_to(self, routes: LegacyRoutes) -> None:
        one = "/contests/{contest_id}"
        written: dict[str, Any] = {"parameters": CONTEST.parameters, "shape": SHAPE}
        routes.add("POST", "/contests", self.create_contest, **written)
        routes.add("POST", one, self.update_contest, **written)
        routes.add("DELETE", one, self.delete_contest)

    async def create_contest(self, call: Call) -> Document:
        """All parameters are optional and have defaults. Unknown ones are ignored."""
        body, now = await call.parameters(CONTEST.parameters), self._environment.now()
        stored = await self._records.create(call.account, partial(contest_written, body, now=now))
        return await self._answer(call, stored.key, body)

    async def update_contest(self, call: Call) -> Document:
        """Takes the parameters of create; those left out keep their value."""
        body, now = await call.parameters(CONTEST.parameters), self._environment.now()
        key = call.path("contest_id")
        await self._records.change(call.account, key, partial(contest_written, body, now=now))
        return await self._answer(call, key, body)

    async def delete_contest(self, call: Call) -> None:
        """Deletes the contest and its participants."""
        await self._records.delete(call.account, call.path("contest_id"))

    async def _answer(self, call: Call, key: str, body: Document) -> Document:
        """Return the contest with its new participants, and with counts if available; the contest is already
        written.
        """
        await self._enter(call.account, key, body.get("add_participants"))
        shape = await contest_shape(self._environment, call.account, key)
        await self._environment.complete(call, CONTESTS, [shape])
        return shape

    async def _enter(self, account: str, contest: str, items: Any) -> None:
        """Add the valid new participants; invalid ones, and images that cannot be used, are skipped silently.

        Raises `LogUnavailable` and `ViewsUnavailable`.
        """
        given = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        for start in range(0, len(given), AT_ONCE):
            await asyncio.gather(
                *(self._enter_one(account, contest, item) for item in given[start : start + AT_ONCE])
            )

    async def _enter_one(self, account: str, contest: str, item: Document) -> None:
        """Add a participant, without its image if that cannot be used."""
        for given in (item, {name: value for name, value in item.items() if name not in IMAGE}):
            try:
                document = PARTICIPANT.written(given, None)
                await self._environment.record_service.create(
                    PARTICIPANTS, account, document, WriteRequest.once(), parent=contest
                )
            except (LogUnavailable, ViewsUnavailable):
                raise
            except TallyError:
                continue
            return


async def contest_shape(environment: LegacyEnvironment, account: str, contest: str) -> Document:
    """Return the contest without counts: another service adds them. Raises `NotFound`."""
    config = await environment.views.contest_config(account, contest)
    loaded = contest_of(account, config)
    if loaded is None or config.contest is None:
        raise NotFound("contest not found")
    approved = [stored for stored in config.participants if loaded.participants[stored.key] == "approved"]
    return contest_read(
        ContestPage(
            account=account,
            phase=loaded.phase(environment.now()),
            contest=config.contest,
            participants=approved,
            totals=None,
            images=await images_of(environment.views, account, config.contest, *approved),
        )
    )
