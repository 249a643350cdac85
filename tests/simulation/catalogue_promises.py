"""The promises about the catalogue: its views are as its log, and what it says is in force for each vote."""

from collections import defaultdict
from typing import Any

import orjson

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.resource_table import CONTESTS as CONTEST_ROW
from libs.contracts.catalogue_events import (
    ContestClosing,
    RecordDeleted,
    RecordWritten,
    Stored,
    catalogue_codec,
    contests_of,
)
from libs.contracts.codec import Undecodable
from libs.tally.events import ContestClosed, VoteCast
from libs.tally.time_conversion import microseconds, parse_timestamp
from tests.simulation.answers import demand, first_began
from tests.simulation.deployment import ACCOUNT
from tests.simulation.logs import Logs, records_of
from tests.simulation.observer import latest_clock, observe
from tests.simulation.source_promises import check_source_marks, demand_source_marks
from tests.simulation.virtual_loop import BEGIN_S
from tests.simulation.world import World
from tests.support.models.catalogue_model import Model


def check_catalogue(world: World) -> None:
    """The live view of the catalogue holds what a plain fold of its log gives."""
    model, number = Model(), world.catalogue_topic.partition_of(ACCOUNT)
    for record in records_of(world, world.catalogue_topic, number):
        model.fold(record.offset, record.timestamp_ms, catalogue_codec.decode(record.value))
    for contest in world.kinds:
        found = observe(world, world.catalogue_views.contest_config(ACCOUNT, contest))
        where = f"{contest} in catalogue/{number}"
        version = model.config.get(contest)
        demand(found.version == version, f"{where} has version {found.version}, by its log {version}")
        its, kept = found.contest, model.found((ACCOUNT, CONTEST_ROW.name, contest))
        demand(its == (kept and kept.stored), f"{where} is {its}, by its log {kept}")
        others = {"participants": found.participants, "vote_sources": found.sources} if its else {}
        for resource, records in others.items():
            by_log = _by_key(model.list_of(ACCOUNT, resource, contest, "created"))
            demand(_by_key(records) == by_log, f"{where} has {resource} {records}, by its log {by_log}")


def _by_key(records: Any) -> dict[str, Stored]:
    return {record.key: record for record in records}


def check_patches(world: World, logs: Logs) -> None:
    """After the answer to a change no vote is decided by the rules before it."""
    first = first_began(world.answers)
    for vote in (event for partition in logs for event in partition.events if isinstance(event, VoteCast)):
        name = vote.contest, vote.voter, vote.vote_id
        for at, contest, version in world.changes:
            if contest == vote.contest and first.get(name, 0.0) > at:
                text = f"{name} was decided by {vote.config}, after {version} was answered"
                demand(vote.config >= version, text)


def check_closings(world: World, logs: Logs) -> None:
    """A contest closes at the end in its record, which all its clocks have passed, and in all its partitions."""
    servers = {world.server_of(number) for number in range(world.partitions)}
    versions: dict[str, int] = {}
    closed: dict[str, Any] = {}
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in records_of(world, world.catalogue_topic, world.catalogue_topic.partition_of(ACCOUNT)):
        event = catalogue_codec.decode(record.value)
        if isinstance(event, Undecodable):
            continue
        if isinstance(event, RecordDeleted) and event.resource == CONTEST_ROW.name:
            closed.pop(event.key, None)
        if isinstance(event, RecordWritten) and event.resource == CONTEST_ROW.name:
            closed.pop(event.key, None)
            ends[event.key].append((record.offset, _end_of(orjson.loads(event.record))))
        elif isinstance(event, ContestClosing):
            document = orjson.loads(event.record)
            end, its = document["closing"]["end"], _end_of(document)
            demand(end == its, f"{event.contest} was closed at {end}, but ends at {its}")
            at = record.timestamp_ms / 1000 - BEGIN_S - world.deployment.brokers.clock_ahead_s
            for server in servers:
                latest = latest_clock(world, server, at) * 1_000_000
                demand(latest >= end, f"{event.contest} was closed before its end by {server.name}: {latest}")
            if event.expected_config == versions[event.contest]:
                closing = closed[event.contest] = closing_of(document)
                assert closing is not None
                check_source_marks(world, event.contest, closing, logs)
        versions.update(dict.fromkeys(contests_of(event), record.offset))
    for contest, closing in closed.items():
        demand_source_marks(contest, closing, logs)
    for partition in logs:
        for contest, closing in closed.items():
            marks = [mark for mark in partition.events if mark == ContestClosed(contest, closing.seq)]
            demand(bool(marks), f"{contest} is closed, and has no marker in votes/{partition.number}")
        for vote in partition.events if world.is_alone else ():
            if isinstance(vote, VoteCast):
                end = [end for offset, end in ends[vote.contest] if offset <= vote.config][-1]
                demand(vote.accepted_at < end, f"{vote.vote_id} was accepted after the end by {vote.config}")


def _end_of(document: dict[str, Any]) -> int:
    end = document["contest_config"].get("end")
    return 2**63 if end is None else microseconds(parse_timestamp(end))
