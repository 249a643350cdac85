"""Balances: vote ids and reports counted from the log against the statuses of the fold."""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from libs.audit.log_fold import LogFold
from libs.audit.report import VerificationReport, source_rows
from libs.catalogue.contests.vote_sources import SourceConfig
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.ndjson_codec import json_form
from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence
from libs.tally.fold import ContestTally
from libs.tally.sources import SourceTally
from tests.libs.views.random_logs import logs
from tests.support.builders.contests import a_cast, a_removal, a_report, a_restore, a_void, pseudonym
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.clients.commands import run, use_deployment
from tests.support.servers.deployments import compare

NAMES = ("participant", "source", "outcomes")
SMS = {"title": "Sms", "is_in_total": True, "mode": "cumulative", "retired": False, "registered": 1}


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedLog]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        await log.begin_catalogue()
        yield log


def folded(events: list[Event]) -> LogFold:
    fold = LogFold(0)
    fold.take([LogRecord(offset, 1_000, vote_codec.encode(event)) for offset, event in enumerate(events)])
    return fold


def report_of(fold: LogFold) -> VerificationReport:
    return VerificationReport.of(fold, None, (), Position("log", fold.offset))


def ledger(events: list[Event]) -> dict[tuple[str | None, str], dict[str, Any]]:
    """Rows of the one contest by participant and source, without what is zero."""
    (contest,) = report_of(folded(events)).contests.values()

    def figures(row: dict[str, Any]) -> dict[str, Any]:
        found = {**row, **row.pop("outcomes", {})}
        return {name: found[name] for name in found if found[name] and name not in NAMES}

    return {(row["participant"], row["source"]): figures(row) for row in contest.ledger}


@given(logs)
def test_over_any_log_every_row_holds(log: list[LogRecord]) -> None:
    fold = LogFold(0)
    fold.take(log)
    report = report_of(fold)
    assert report.balanced
    for contest in report.contests.values():
        assert all(row["balanced"] for row in contest.ledger)


def test_each_id_stands_at_what_became_of_it() -> None:
    assert ledger(
        [
            a_cast("a", vote_id="1"),
            a_cast("a", vote_id="1"),
            a_cast("a", vote_id="2", source="c-paid"),
            a_removal("2", source="c-paid"),
            a_cast("b", vote_id="3"),
            a_void("3"),
            a_cast("b", vote_id="4"),
            a_void("4"),
            a_restore("4"),
            a_cast("b", 2, vote_id="5", voter="greedy", max_contest=1),
            ContestClosed("contest", 1),
            a_cast("b", vote_id="6"),
            Fence(7),
            a_cast("a", vote_id="fenced"),
        ]
    ) == {
        ("a", "c-free"): {"ids": 1, "counted": 1, "balanced": True},
        ("a", "c-paid"): {"ids": 1, "removed": 1, "balanced": True},
        ("b", "c-free"): {"ids": 4, "voided": 1, "counted": 1, "overruled": 1, "late": 1, "balanced": True},
    }


@pytest.mark.parametrize(
    ("events", "rows"),
    [
        ([a_removal(), a_cast()], {(None, "c-free"): {"ids": 1, "removed": 1, "balanced": True}}),
        ([a_removal(), a_removal(), ContestClosed("contest", 1), a_removal()],
         {(None, "c-free"): {"ids": 1, "removed": 1, "balanced": True}}),
        ([ContestClosed("contest", 1), a_removal(), a_cast()],
         {("a", "c-free"): {"ids": 1, "late": 1, "balanced": True}}),
        ([ContestClosed("contest", 1), a_removal()], {}),
        ([ContestClosed("contest", 1), a_removal(), ContestReopened("contest", 1), a_cast()],
         {(None, "c-free"): {"ids": 1, "removed": 1, "balanced": True}}),
        ([Fence(7), a_removal(), a_cast(incarnation=7)],
         {("a", "c-free"): {"ids": 1, "counted": 1, "balanced": True}}),
        ([Fence(7), a_removal(incarnation=7), a_cast()],
         {(None, "c-free"): {"ids": 1, "removed": 1, "balanced": True}}),
    ],
)  # fmt: skip
def test_an_id_that_was_removed_before_it_was_cast_has_a_row_of_its_own(
    events: list[Event], rows: dict[tuple[str | None, str], dict[str, Any]]
) -> None:
    assert ledger(events) == rows


def lose(tally: ContestTally) -> None:
    del tally.voters[pseudonym("voter")].votes["1"]


def double(tally: ContestTally) -> None:
    votes = tally.voters[pseudonym("voter")].votes
    votes["again"] = votes["1"]


def mistake(tally: ContestTally) -> None:
    votes = tally.voters[pseudonym("voter")].votes
    votes["1"].cast = a_cast("b", vote_id="1")


@pytest.mark.parametrize("broken", [lose, double, mistake])
def test_a_fold_that_loses_doubles_or_mistakes_an_id_is_found_at_its_participant(
    broken: Callable[[ContestTally], None],
) -> None:
    fold = folded([a_cast("a", vote_id="1"), a_cast("a", vote_id="2"), a_cast("c", vote_id="3")])
    broken(fold.tally.contests["contest"])
    report = report_of(fold)
    assert not report.balanced
    wrong = [row["participant"] for row in report.contests["contest"].ledger if not row["balanced"]]
    assert wrong in (["a"], ["a", "b"])


def test_what_a_source_reported_last_is_counted_or_held_with_its_reason() -> None:
    config = SourceConfig(**{**SMS, "mapping": {"x": "a", "y": "a", "z": "b", "gone": "nobody"}})  # type: ignore[arg-type]
    tally = SourceTally()
    first = a_report("1", ("x", 5, 0, 0), ("y", 4, 0, 0), ("z", 3, 0, 0), ("gone", 2, 0, 0), ("new", 9, 0, 0))
    tally.take(first, 1, 1)
    tally.take(a_report("2", ("y", 1, 0, 0)), 2, 2)
    latest = {"x": 5, "y": 1, "z": 3, "gone": 2, "new": 9}
    rows = {name: json_form(row) for name, row in source_rows(config, latest, tally, {"a", "b"}).items()}
    assert rows == {
        "": {"reported": 11, "counted": 0, "held": {"unmapped": 11}, "balanced": True},
        "a": {"reported": 6, "counted": 9, "held": {"decrease": -3}, "balanced": True},
        "b": {"reported": 3, "counted": 3, "held": {}, "balanced": True},
    }
    tally.figures["z"] = VoteSums(4)
    assert not source_rows(config, latest, tally, {"a", "b"})["b"].balanced


async def test_the_command_shows_the_equations_and_fails_with_one_that_does_not_hold(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append([a_cast("a", vote_id="1"), a_cast("b", vote_id="2"), a_removal("2"), a_removal("first")])
    await log.append([a_report("1", ("x", 5, 0, 0)), a_cast("a", contest="another")])
    await log.fold()
    await log.fold(1)
    use_deployment(monkeypatch, log.stack)
    verify = partial(run, "verify", "--data-dir", "none")
    right = await verify("contest")
    assert right.exit_code == 0, right.output
    lines = [" ".join(line.split()) for line in right.stdout.splitlines()]
    at = lines.index("participant source equation")
    assert lines[at - 1] == "Contest contest"
    assert [line.split(" = ")[0] for line in lines[at + 1 : at + 5]] == [
        "- c-free 1 vote id",
        "a c-free 1 vote id",
        "b c-free 1 vote id",
        "- sms 5 reported",
    ]
    assert lines[at + 4].endswith("5 reported = 0 counted + 5 held: unmapped")

    def broken(self: ContestTally, event: object, offset: int) -> bool:
        return False

    monkeypatch.setattr(ContestTally, "remove", broken)
    report = await compare(log.stack, "contest")
    assert not report.balanced
    wrong = await verify("contest", "--json")
    assert wrong.exit_code == 1
    rows = json.loads(wrong.stdout)["contests"]["contest"]["ledger"]
    assert [row["participant"] for row in rows if not row["balanced"]] == [None]
