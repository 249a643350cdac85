"""Random voters in random contests, step by step: Valkey's functions answer as the plain rules do, and hold
what a plain count of the log finds."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from redis import Redis

from libs.contracts.log import Position
from libs.tally.admission import Granted, RemovalGranted, Stale
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import Contest, Limits, RatingScale, Renewal
from libs.tally.events import ContestClosed, ContestReopened, Event, LogCreated, SourceReported
from libs.tally.figures import Figures
from libs.tally.tallies import ContestTally
from tests.libs.views.simulation.errands import Casting, Errand, Removing
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua import LuaLedger, at_once, load
from tests.libs.views.simulation.model import ModelLedger
from tests.libs.views.simulation.plain import plainly
from tests.libs.views.simulation.truth import check_fold, folded
from tests.support.builders import a_ballot, a_contest, a_rating, a_report, a_vote, content_hash, pseudonym

SETTINGS = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
MILLION = 1_000_000
SOURCES = "c-free", "c-paid"

limits = st.builds(Limits, st.sampled_from([-1, 0, 1, 2, 3]), st.sampled_from([-1, 1, 2, 4]))
renewals = st.builds(Renewal, st.sampled_from([0, 10_000, 30_000]), st.sampled_from([0, 0, 1]))
scales = st.builds(
    RatingScale,
    max_per_participant=st.sampled_from([1, 1, 2, -1]),
    sub_ratings=st.just({"taste": 5 * MILLION}),
)
configurations = st.fixed_dictionaries(
    {
        "free": limits,
        "paid": limits,
        "renewal": renewals,
        "rating": st.builds(
            RatingScale,
            max_per_participant=st.sampled_from([1, 1, 2, -1]),
            sub_ratings=st.just({"taste": 5 * MILLION}),
        ),
        "is_vote_removal_allowed": st.sampled_from([True, True, True, False]),
        "is_anonymous_voting_enabled": st.just(True),
        "is_paid_anonymous": st.booleans(),
    }
)
voters = st.sampled_from([("anna", False), ("bert", True)])
free_ids = st.integers(0, 11).map(lambda n: f"id{n}")
paid_ids = st.integers(0, 5).map(lambda n: f"purchase{n}")
picks = st.integers(0, 1_000)


@st.composite
def votes(draw: Callable[..., Any], contest_type: str) -> CastVote:
    voter, anonymous = draw(voters)
    source = draw(st.sampled_from(["c-free", "c-free", "c-paid"]))
    vote_id = draw(free_ids if source == "c-free" else paid_ids)
    rest: dict[str, Any] = {"voter": voter, "anonymous": anonymous, "vote_id": vote_id, "source": source}
    match contest_type:
        case "rating":
            subs = draw(st.sampled_from([(), (("taste", 3 * MILLION),)]))
            vote = a_rating(
                draw(st.sampled_from("ab")), draw(st.integers(0, 5)) * MILLION, sub_ratings=subs, **rest
            )
        case "ordering":
            order = draw(st.permutations("abc"))[: draw(st.integers(1, 3))]
            vote = a_ballot(*zip(("1st", "2nd", "3rd"), order, strict=False), **rest)
        case _:
            vote = a_vote(draw(st.sampled_from("ab")), draw(st.integers(1, 3)), **rest)
    return replace(vote, content=content_hash(vote.content, source))


class Both:
    """The functions and the model side by side, each with a log of its own, since their incarnations differ."""

    def __init__(self, redis: Redis) -> None:
        self.lua = LuaLedger(redis, f"t{uuid.uuid4().hex[:12]}")
        self.ledgers: list[Ledger] = [self.lua, ModelLedger()]
        self.logs: list[list[Event]] = [[LogCreated("log")], [LogCreated("log")]]

    def ask(self, question: Callable[[Ledger], Any]) -> list[Any]:
        """What both answer; it must be the same."""
        answers = [question(ledger) for ledger in self.ledgers]
        lua, model = (_without_incarnation(answer) for answer in answers)
        assert lua == model
        return answers

    def tell(self, *events: Event) -> None:
        """Append to each log its own form of an event."""
        for log, event in zip(self.logs, events * (2 // len(events)), strict=True):
            log.append(event)

    def fold(self, most: int = 10**6) -> None:
        for ledger, log in zip(self.ledgers, self.logs, strict=True):
            at = ledger.state().position.offset
            end = min(len(log), at + most)
            ledger.apply(Position("log", at), log[at:end], end)

    def fence(self) -> None:
        for ledger, log in zip(self.ledgers, self.logs, strict=True):
            asked = ledger.shut(ledger.state().incarnation)
            assert asked is not None
            log.append(asked)
        self.fold()


def _without_incarnation(answer: Any) -> Any:
    return replace(answer, incarnation=0) if hasattr(answer, "incarnation") else answer


class Voting(RuleBasedStateMachine):
    """One contest. What was granted is recorded later, out of order, twice, or never."""

    def __init__(self, redis: Redis) -> None:
        super().__init__()
        self.both = Both(redis)
        self.contest = a_contest()
        self.granted: list[tuple[Errand, list[Any]]] = []
        self.marks: list[ContestClosed] = []
        self.both.fence()

    @initialize(kind=st.sampled_from(["voteonly", "rating", "rating", "ordering"]), config=configurations)
    def begin(self, kind: str, config: dict[str, Any]) -> None:
        positions = {"1st": 5, "2nd": 3, "3rd": 1}
        self.contest = a_contest(contest_type=kind, positions=positions, **config)

    def put_in_force(self, contest: Contest) -> None:
        self.contest = replace(contest, version=self.contest.version + 1)
        for ledger in self.both.ledgers:
            ledger.raise_config("contest", self.contest.version)

    def request(self, errand: Errand, question: Callable[[Ledger], Any]) -> None:
        answers = self.both.ask(question)
        if isinstance(answers[0], Stale):
            for ledger, answer in zip(self.both.ledgers, answers, strict=True):
                ledger.raise_config("contest", self.contest.version, answer.incarnation)
            answers = self.both.ask(question)
            assert not isinstance(answers[0], Stale)
        if isinstance(answers[0], Granted | RemovalGranted):
            self.granted.append((errand, answers))

    @rule(data=st.data())
    def cast(self, data: st.DataObject) -> None:
        vote = data.draw(votes(self.contest.contest_type))
        self.request(Casting(vote), lambda ledger: ledger.reserve(self.contest, vote))

    @rule(voter=voters, vote_id=free_ids | paid_ids)
    def remove(self, voter: tuple[str, bool], vote_id: str) -> None:
        command = RemoveVote("contest", pseudonym(voter[0]), vote_id)
        self.request(Removing(command), lambda ledger: ledger.remove(self.contest, command))

    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        """Of a purchase, whether or not it was cast."""
        vote_id = data.draw(paid_ids)
        vote = data.draw(votes(self.contest.contest_type))
        paid = replace(vote, source="c-paid", vote_id=vote_id, content=content_hash(vote_id))
        self.request(Removing(paid), lambda ledger: ledger.refund(paid))

    @precondition(lambda self: self.granted)
    @rule(pick=picks, again=st.sampled_from([False, False, False, True]))
    def record(self, pick: int, again: bool) -> None:
        """The record comes into the log, soon or late; sometimes another copy of it will."""
        at = pick % len(self.granted)
        errand, answers = self.granted[at] if again else self.granted.pop(at)
        self.both.tell(*(errand.event(answer) for answer in answers))

    @precondition(lambda self: self.granted)
    @rule(pick=picks)
    def give_up(self, pick: int) -> None:
        """The log has definitely refused an attempt."""
        errand, answers = self.granted[pick % len(self.granted)]
        of_it = [its for its in self.granted if its[0] == errand]
        if len(of_it) == 1 and not self.is_on_its_way(errand):
            self.granted.remove((errand, answers))
            for ledger, answer in zip(self.both.ledgers, answers, strict=True):
                errand.release(ledger, answer.incarnation)

    def is_on_its_way(self, errand: Errand) -> bool:
        log, at = self.both.logs[1], self.both.ledgers[1].state().position.offset
        name = errand.command.voter, errand.command.vote_id
        return any((getattr(e, "voter", None), getattr(e, "vote_id", None)) == name for e in log[at:])

    @rule(most=st.sampled_from([1, 3, 1_000]))
    def fold(self, most: int) -> None:
        self.both.fold(most)

    @rule(turns=st.sampled_from([1, 9, 10, 30, 31, 300]))
    def wait(self, turns: int) -> None:
        for ledger in self.both.ledgers:
            ledger.tick(turns)

    @rule()
    def end_doubt(self) -> None:
        self.both.fence()

    @rule(config=configurations)
    def change(self, config: dict[str, Any]) -> None:
        self.put_in_force(replace(self.contest, **config))

    @precondition(lambda self: not self.contest.closed)
    @rule()
    def close(self) -> None:
        self.put_in_force(replace(self.contest, closed=self.contest.reopened + 1))

    @precondition(lambda self: self.contest.closed)
    @rule()
    def find_that_nothing_is_pending(self) -> None:
        if not self.both.ask(lambda ledger: ledger.closing("contest"))[0].pending:
            self.marks.append(ContestClosed("contest", self.contest.closed))

    @precondition(lambda self: self.marks)
    @rule(pick=picks)
    def mark(self, pick: int) -> None:
        """Soon, late, or once more."""
        self.both.tell(self.marks[pick % len(self.marks)])

    @precondition(lambda self: self.contest.closed)
    @rule(source=st.sampled_from(["sms", "tv"]))
    def mark_a_source(self, source: str) -> None:
        self.both.tell(ContestClosed("contest", self.contest.closed, source))

    @precondition(lambda self: self.contest.closed)
    @rule()
    def reopen(self) -> None:
        self.put_in_force(replace(self.contest, closed=0, reopened=self.contest.closed))

    @precondition(lambda self: self.contest.reopened)
    @rule()
    def void_marks(self) -> None:
        self.both.tell(ContestReopened("contest", self.contest.reopened))

    @rule(
        source=st.sampled_from(["sms", "tv"]),
        report_id=st.integers(0, 9).map(str),
        counts=st.dictionaries(st.sampled_from("xy"), st.integers(0, 9), max_size=2),
        allow=st.sampled_from([False, False, True]),
    )
    def report(self, source: str, report_id: str, counts: dict[str, int], allow: bool) -> None:
        figures = ((mapped, count, count, 0) for mapped, count in counts.items())
        mode = "delta" if source == "tv" else "cumulative"
        self.both.tell(a_report(report_id, *figures, source=source, mode=mode, allow_decrease=allow))

    @rule(voter=voters, vote_id=free_ids | paid_ids)
    def look(self, voter: tuple[str, bool], vote_id: str) -> None:
        command = RemoveVote("contest", pseudonym(voter[0]), vote_id)
        self.both.ask(lambda ledger: ledger.lookup(command))
        self.both.ask(lambda ledger: _held(ledger, command.voter))
        self.both.ask(lambda ledger: ledger.closing("contest"))

    @rule()
    def the_view_holds_what_was_counted(self) -> None:
        at = self.both.ledgers[0].state().position.offset
        log = self.both.logs[0][:at]
        tally = folded(log)
        assert not self.both.lua.differences(tally)
        contest = tally.contests.get("contest", ContestTally())
        check_fold(contest, plainly(log))
        check_sources(contest, log)
        check_sums(self.both.lua)

    def teardown(self) -> None:
        self.both.fold()
        self.the_view_holds_what_was_counted()
        self.both.lua.clear()


def _held(ledger: Ledger, voter: str) -> Any:
    allowance = ledger.allowance("contest", voter)
    used: Counter[tuple[str, str, int]] = Counter()
    for row in allowance.used:
        used[row[:3]] += row.votes
    return allowance.epoch, allowance.latest, +used


def check_sources(contest: ContestTally, log: list[Event]) -> None:
    """What a source reported last of an id is counted or held, and a report id counts once."""
    latest: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    closed: dict[str, int] = {}
    reopened = 0
    for event in log:
        match event:
            case ContestClosed(source=str() as source) if event.seq > reopened:
                closed[source] = max(closed.get(source, 0), event.seq)
            case ContestReopened() if event.seq > reopened:
                reopened = event.seq
                closed = {source: seq for source, seq in closed.items() if seq > reopened}
            case SourceReported() if (event.source, event.report_id) not in seen:
                seen.add((event.source, event.report_id))
                for mapped, count, _, _ in event.counts if event.source not in closed else ():
                    before = latest.get((event.source, mapped), 0) if event.mode == "delta" else 0
                    latest[event.source, mapped] = before + count
    reported = {
        (source, mapped): (kept.held.get(mapped) or kept.figures[mapped]).count
        for source, kept in contest.sources.items()
        for mapped in kept.figures
    }
    assert reported == latest


def check_sums(ledger: LuaLedger) -> None:
    """Sources sum to the total, and so do participants."""
    counts = at_once(ledger._views.counts(0, "contest"))
    assert counts is not None
    participants = {participant for participant, _ in counts.figures if participant}
    for source in SOURCES:
        its = sum(counts.figures[participant, source].count for participant in participants)
        assert counts.figures.get(("", source), Figures()).count == its
    for participant in participants | {""}:
        total = sum(counts.figures.get((participant, source), Figures()).count for source in SOURCES)
        assert counts.figures.get((participant, ""), Figures()).count == total


def test_functions_and_rules_agree_and_the_count_is_right(valkey_address: str) -> None:
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        checks = list(HealthCheck)
        run_state_machine_as_test(
            lambda: Voting(redis),
            settings=settings(
                max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=checks
            ),
        )
