"""Registers, reads and retires external vote sources of contests."""

from typing import Final

from libs.catalogue.contests.contest_mapper import ContestReader
from libs.catalogue.contests.vote_sources import source_key, source_name, source_of
from libs.catalogue.records import Fits, RecordService
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.catalogue.schemas.contest import SOURCE_NAME, VoteSource
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.contracts.validation import Problem, ValidationFailed, pointer
from libs.tally.errors import NotFound

MOST_SOURCES: Final = 100
"""Vote sources of a contest, also retired ones, since their counts stay: each read of the counts returns all."""


class VoteSources:
    """Vote sources of one environment; reads exclude retired ones."""

    def __init__(self, record_service: RecordService, views: ContestReader) -> None:
        self._record_service = record_service
        self._views = views

    async def put(
        self, account: str, contest: str, source: str, form: VoteSource, fits: Fits | None
    ) -> tuple[Stored, bool]:
        """Register a source, or replace its registration; True if it is new or was retired.

        Raises `NotFound`, `VersionConflict`, and `ValidationFailed` for a reserved name, a mapping to a
        participant that the contest does not have, or one source too many.
        """
        if not SOURCE_NAME.fullmatch(source):
            message = "a source's name is 1 to 64 of A-Z a-z 0-9 _ . -, not . or .., and does not begin with c-"
            raise ValidationFailed([Problem("", message)])
        config = await self._config(account, contest)
        known = {stored.key for stored in config.participants}
        registered = next((each for each in config.sources if source_name(each) == source), None)
        if registered is None and len(config.sources) >= MOST_SOURCES:
            message = f"a contest can have at most {MOST_SOURCES} vote sources, retired ones included"
            raise ValidationFailed([Problem("", message)])
        if registered is not None:
            known.update(source_of(registered).mapping.values())  # deleted participants may stay in the mapping
        strangers = [(mapped, key) for mapped, key in form.mapping.items() if key not in known]
        if strangers:
            raise ValidationFailed(
                Problem(pointer("mapping", mapped), f"the contest has no participant {key}")
                for mapped, key in strangers
            )
        key = source_key(contest, source)
        stored, before = await self._record_service.put(
            VOTE_SOURCES, account, key, form.stored(), parent=contest, fits=_in_use(fits)
        )
        return stored, before is None or source_of(before).retired

    async def get(self, account: str, contest: str, source: str) -> Stored:
        """Return the registration. Raises `NotFound`."""
        for stored in await self.all(account, contest):
            if source_name(stored) == source:
                return stored
        raise NotFound(f"The contest has no vote source {source}.")

    async def all(self, account: str, contest: str) -> list[Stored]:
        """Return the registrations in the order of their first registration. Raises `NotFound`."""
        sources = (await self._config(account, contest)).sources
        return [stored for stored in sources if not source_of(stored).retired]

    async def retire(self, account: str, contest: str, source: str, fits: Fits | None) -> None:
        """Retire the source: reports are refused, its counts stay. Raises `NotFound`, `VersionConflict`."""
        stored = await self.get(account, contest, source)
        await self._record_service.patch(VOTE_SOURCES, account, stored.key, {"retired": True}, _in_use(fits))

    async def _config(self, account: str, contest: str) -> ContestRecords:
        config = await self._views.contest_config(account, contest)
        if config.contest is None:
            raise NotFound(f"Contest {contest} not found.")
        return config


def _in_use(fits: Fits | None) -> Fits | None:
    return None if fits is None else lambda stored: not source_of(stored).retired and fits(stored)
