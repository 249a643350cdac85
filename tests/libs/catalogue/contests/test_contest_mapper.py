"""The mapping of contests to the voting rules, and notification of changes."""

from collections.abc import Mapping
from typing import Any

import pytest

from libs.catalogue.contests.contest_mapper import load_contest
from libs.contracts.catalogue_events import CatalogueEvent, RecordCreated, Stored, catalogue_codec
from libs.contracts.log_records import LogRecord, Position
from libs.projection.record_projections import CatalogueProjection
from libs.tally.contest import UNLIMITED, Contest, Limits
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from tests.libs.catalogue.conftest import TABLE
from tests.support.builders.catalogue import Catalogue

CONTESTS, PARTICIPANTS = TABLE["contests"], TABLE["participants"]


async def loaded(catalogue: Catalogue, account: str, stored: Stored) -> Contest:
    contest = await load_contest(catalogue.views, account, stored.key)
    assert contest is not None
    return contest


async def test_unset_members_have_the_documented_defaults(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {})
    contest = await loaded(catalogue, account, stored)
    assert (contest.key, contest.account, contest.version) == (stored.key, account, stored.version)
    assert contest.free == Limits(max_participant=1, max_contest=UNLIMITED)
    assert contest.paid == Limits(max_participant=UNLIMITED, max_contest=UNLIMITED)
    assert contest.ip_restriction_per_participant == 10
    assert contest.is_vote_removal_allowed
    assert (contest.publish, contest.start, contest.end) == (None, None, None)
    assert await load_contest(catalogue.views, account, "nothing") is None
    assert await load_contest(catalogue.views, "somebody", stored.key) is None


async def test_what_is_set_holds_to_the_microsecond(catalogue: Catalogue, account: str) -> None:
    rules = {
        "start": "2026-01-01T01:00:00.000001+01:00",
        "end": "2026-01-02T00:00:00Z",
        "free": {"max_contest": 0, "is_mobile_only": True},
        "paid": {"max_participant": 7, "is_anonymous": True},
        "is_anonymous_voting_enabled": True,
        "ip_restriction_per_participant": -1,
    }
    stored = await catalogue.create("contests", account, {"contest_config": rules})
    contest = await loaded(catalogue, account, stored)
    assert contest.start == 1_767_225_600_000_001
    assert contest.end == 1_767_312_000_000_000
    assert (contest.free, contest.paid) == (Limits(1, 0), Limits(7, -1))
    assert contest.is_mobile_only
    assert contest.is_paid_anonymous
    assert contest.is_anonymous_voting_enabled
    assert contest.ip_restriction_per_participant == UNLIMITED


async def test_a_participant_s_change_raises_its_contest_s_version(catalogue: Catalogue, account: str) -> None:
    stored = await catalogue.create("contests", account, {})
    made = await catalogue.create("participants", account, {"status": "pending"}, stored.key)
    contest = await loaded(catalogue, account, stored)
    assert (contest.version, contest.participants) == (made.version, {made.key: "pending"})
    changed = await catalogue.record_service.patch(PARTICIPANTS, account, made.key, {"status": "approved"})
    contest = await loaded(catalogue, account, stored)
    assert (contest.version, contest.participants) == (changed.version, {made.key: "approved"})
    assert catalogue.raised[stored.key] == changed.version
    await catalogue.record_service.delete(PARTICIPANTS, account, made.key)
    contest = await loaded(catalogue, account, stored)
    assert (contest.version, contest.participants) == (catalogue.raised[stored.key], {})


async def test_the_version_is_in_force_before_the_change_can_be_read(catalogue: Catalogue) -> None:
    """A crash between the two leaves voters' workers reloading, not deciding by what is gone."""
    order: list[Any] = []

    class Views(CatalogueViews):
        async def position(self, partition: int) -> Position | None:
            return None

        async def apply(self, partition: int, start: Position, entries: Any, end: int) -> bool:
            order.append(("applied", end))
            raise ViewsUnavailable("crash")

    async def raise_config(versions: Mapping[str, int]) -> None:
        order.append(dict(versions))

    written: dict[str, Any] = {"account": "a", "command_id": "c", "at": 1, "record": "{}"}
    written |= {"resource": "contests", "key": "k"}
    events: list[CatalogueEvent] = [
        LogCreated("log"),
        *(RecordCreated(**written, contest=contest) for contest in ("k", "k", "other")),
    ]
    views = Views(catalogue.views.generations.valkey, catalogue.views.generations.namespace)
    projection = CatalogueProjection(catalogue.topic, views, raise_config)
    records = [LogRecord(offset, 0, catalogue_codec.encode(event)) for offset, event in enumerate(events)]
    with pytest.raises(ViewsUnavailable):
        await projection.fold(0, Position("log", 0), records)
    assert order == [{"k": 2, "other": 3}, ("applied", 4)]
