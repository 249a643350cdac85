"""Random voters, contests and operations without faults, run against the functions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

from libs.tally.admission import Selection
from libs.tally.contest import Contest, Limits, RatingScale, Renewal
from libs.tally.counts import VoteSums
from libs.tally.errors import ContestNotRunning, LimitReached, TallyError
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.reservations import Granted, NotRunning, OverLimit, RefusedByCaller, RemovalGranted, Stale, cast_of
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoterLedger
from tests.libs.views.lua_ledger import LuaLedger, at_once, folded
from tests.libs.views.partition import removal_event
from tests.libs.views.scheduled_log import Log
from tests.simulation.naive_fold import plainly
from tests.simulation.promises import check_fold, check_sources
from tests.support.builders.contests import a_ballot, a_contest, a_rating, a_report, a_vote, content_hash
from tests.support.models.reference_admission import decide

STEPS = 150
Decided = Granted | OverLimit | NotRunning | RefusedByCaller
MILLION = 1_000_000
SOURCES = "c-free", "c-paid"
VOTERS = ("anna", False), ("bert", True)
IDS = [("c-free", f"id{n}") for n in range(7)] + [("c-paid", f"purchase{n}") for n in range(3)]
POSITIONS = {"1st": 5, "2nd": 3, "3rd": 1}


def all_votes(contest_type: str) -> Iterator[CastVote]:
    """Few enough for ids, participants and periods to meet."""
    for (voter, anonymous), (source, vote_id) in product(VOTERS, IDS):
        rest: dict[str, Any] = {"voter": voter, "anonymous": anonymous, "vote_id": vote_id, "source": source}
        match contest_type:
            case "rating":
                subs = (("taste", 3 * MILLION),)
                yield from (a_rating(name, value * MILLION, **rest) for name in "ab" for value in (1, 4))
                yield a_rating("a", 5 * MILLION, sub_ratings=subs, **rest)
            case "ordering":
                orders = (("a",), ("b",), ("b", "a"), ("c", "a", "b"))
                yield from (a_ballot(*zip(("1st", "2nd", "3rd"), order, strict=False), **rest) for order in orders)
            case _:
                yield from (a_vote(name, count, **rest) for name in "ab" for count in (1, 2))


VOTES = {
    kind: [vote._replace(content=content_hash(vote.content, vote.source)) for vote in all_votes(kind)]
    for kind in ("voteonly", "rating", "ordering")
}


def some_configuration(rng: Random) -> dict[str, Any]:
    def limits() -> Limits:
        return Limits(rng.choice([-1, 0, 1, 2, 3]), rng.choice([-1, 1, 2, 4]))

    return {
        "free": limits(),
        "paid": limits(),
        "renewal": Renewal(rng.choice([0, 10_000, 30_000]), rng.choice([0, 0, 1])),
        "rating": RatingScale(max_per_participant=rng.choice([1, 1, 2, -1]), sub_ratings={"taste": 5 * MILLION}),
        "is_vote_removal_allowed": rng.random() < 0.8,
        "is_anonymous_voting_enabled": True,
        "is_paid_anonymous": rng.random() < 0.5,
    }


class Voting:
    """One contest. What was granted is recorded at once, later, out of order, twice, or never."""

    def __init__(self, lua: LuaLedger, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.ledger = lua
        self.log = Log(lua)
        kind = rng.choice(["voteonly", "rating", "rating", "ordering"])
        # of every fourth contest allowances renew all the time, so that voters come to many periods
        self.always = {"renewal": Renewal(5_000)} if seed % 4 == 3 else {}
        # another fourth is closed and reopened again and again
        self.reopens = int(seed % 4 == 1)
        self.contest = a_contest(contest_type=kind, positions=POSITIONS, **self._some_configuration())
        self.granted: list[tuple[CastVote | RemoveVote, Any]] = []
        """Requests and what they were granted; a `CastVote` with a `RemovalGranted` is a refund."""
        self.marks: list[ContestClosed] = []
        self.log.fence()

    def run(self) -> None:
        steps = {
            self.cast: 12,
            self.remove: 4,
            self.refund: 2,
            self.record: 4,
            self.give_up: 2,
            self.fold: 3,
            self.wait: 3,
            self.end_doubt: 1,
            self.change: 2,
            self.close_or_reopen: 1 + self.reopens,
            self.mark: 2 + 2 * self.reopens,
            self.void_marks: 2 + 2 * self.reopens,
            self.report: 2,
            self.void: 3 + 5 * self.reopens,
            self.look: 3,
        }
        for step in self.rng.choices(list(steps), list(steps.values()), k=STEPS):
            step()
        self.log.fold()
        self.check()

    def some_vote(self) -> CastVote:
        vote = self.rng.choice(VOTES[self.contest.contest_type])
        return vote._replace(vote_id=f"new{self.rng.random()}") if self.rng.random() < 0.3 else vote

    def cast(self) -> None:
        vote, state = self.some_vote(), self.ledger.state()
        answer = self._request(vote, lambda ledger: ledger.reserve(self.contest, vote))
        if not state.pending and isinstance(answer, Granted | OverLimit | NotRunning | RefusedByCaller):
            self.compare(vote, answer, folded(self.log[: state.position.offset]))

    def compare(self, vote: CastVote, answer: Decided, tally: PartitionTally) -> None:
        """Where nothing is pending, the ledger admits as the reference does."""
        standing = tally.contests.get("contest", ContestTally()).voters.get(vote.voter, VoterLedger())
        renews = self.contest.renewal.after(standing.latest)
        if vote.source == "c-free" and renews is not None and not standing.latest and standing.votes:
            return  # allowances began to renew after the voter's first votes
        now = answer.terms.accepted_at if isinstance(answer, Granted) else answer.now
        epoch = 0
        if vote.source == "c-free":
            renewed = renews is not None and standing.latest and now >= renews
            epoch = standing.epoch + 1 if renewed else standing.epoch

        def used(participant: str) -> int:
            sums = standing.used.get((participant, vote.source, epoch))
            return 0 if sums is None else sums.votes

        expected = decide(self.contest, vote, used, now, lambda slot: (slot, vote.source) in standing.slots)
        found = {Granted: Selection, OverLimit: LimitReached, NotRunning: ContestNotRunning}.get(type(answer))
        if found is None:
            assert isinstance(expected, TallyError), f"{vote} is refused, the reference admits it as {expected}"
            assert not isinstance(expected, LimitReached | ContestNotRunning)
        else:
            assert isinstance(expected, found), f"{vote} is decided as {answer}, by the reference as {expected}"
            if isinstance(answer, OverLimit) and isinstance(expected, LimitReached):
                assert (answer.limit, answer.used) == (expected.data["limit"], expected.data["used"])
            if isinstance(answer, Granted) and isinstance(expected, Selection):
                renews_at = self.contest.renewal.after(now) if vote.source == "c-free" else None
                assert answer.terms.next_free_vote_at == renews_at
                assert (answer.form, answer.terms.choices) == (expected.form, expected.choices)

    def remove(self) -> None:
        """Most often a vote in the log."""
        cast: list[CastVote | VoteCast] = [event for event in self.log if isinstance(event, VoteCast)]
        vote = self.rng.choice([self.some_vote(), *cast])
        command = RemoveVote("contest", vote.voter, vote.vote_id)
        self._request(command, lambda ledger: ledger.remove(self.contest, command))

    def refund(self) -> None:
        """Of a purchase, whether or not it was cast."""
        paid = [vote for vote in VOTES[self.contest.contest_type] if vote.source == "c-paid"]
        vote = self.rng.choice(paid)._replace(content=content_hash("purchase"))
        self._request(vote, lambda ledger: ledger.refund(vote))

    def _request(self, command: CastVote | RemoveVote, question: Callable[[LuaLedger], Any]) -> Any:
        answer = question(self.ledger)
        if isinstance(answer, Stale):
            self.ledger.put_in_force(self.contest, answer.incarnation)
            answer = question(self.ledger)
            assert not isinstance(answer, Stale)
        if isinstance(answer, Granted | RemovalGranted):
            self.granted.append((command, answer))
            if self.rng.random() < 0.6:
                self._record(len(self.granted) - 1)
                self.log.fold()
        return answer

    def record(self) -> None:
        """Something that was granted comes into the log."""
        if self.granted:
            self._record(self.rng.randrange(len(self.granted)))

    def _record(self, at: int) -> None:
        """Sometimes another copy of it will come."""
        command, granted = self.granted[at]
        if self.rng.random() < 0.8:
            del self.granted[at]
        if isinstance(granted, Granted):
            assert isinstance(command, CastVote)
            self.log.append(cast_of(command, granted, "receipt"))
        else:
            self.log.append(removal_event(command, granted))

    def give_up(self) -> None:
        """The log has definitely refused an attempt, the only one."""
        if self.granted:
            attempt = self.rng.choice(self.granted)
            command, granted = attempt
            attempts = [each for each in self.granted if each[0] == command and type(each[1]) is type(granted)]
            if len(attempts) == 1 and not self._is_on_its_way(command):
                self.granted.remove(attempt)
                removal = isinstance(granted, RemovalGranted)
                self.ledger.release(command, granted.incarnation, removal=removal)

    def _is_on_its_way(self, command: CastVote | RemoveVote) -> bool:
        name, at = (command.voter, command.vote_id), self.ledger.state().position.offset
        events = (event for event in self.log[at:] if isinstance(event, VoteCast | VoteRemoved))
        return any((event.voter, event.vote_id) == name for event in events)

    def fold(self) -> None:
        self.log.fold(self.rng.choice([1, 3, 1_000]))

    def wait(self) -> None:
        turns = self.rng.choice([1, 9, 10, 30, 300])
        self.ledger.tick(turns)

    def end_doubt(self) -> None:
        self.log.fence()

    def change(self) -> None:
        self._put_in_force(replace(self.contest, **self._some_configuration()))

    def _some_configuration(self) -> dict[str, Any]:
        return some_configuration(self.rng) | self.always

    def close_or_reopen(self) -> None:
        seq = self.contest.closed
        closed, reopened = (0, seq) if seq else (self.contest.reopened + 1, self.contest.reopened)
        self._put_in_force(replace(self.contest, closed=closed, reopened=reopened))

    def _put_in_force(self, contest: Contest) -> None:
        self.contest = replace(contest, version=self.contest.version + 1)
        self.ledger.raise_config("contest", self.contest.version)

    def mark(self) -> None:
        """A mark that is due now, or a former one, late or once more."""
        if self.contest.closed and not self.ledger.closing("contest").pending:
            source = self.rng.choice([None, None, "sms", "tv"])
            self.marks.append(ContestClosed("contest", self.contest.closed, source))
        if self.marks:
            self.log.append(self.rng.choice([self.marks[-1], *self.marks]))

    def void_marks(self) -> None:
        if self.contest.reopened:
            at_most = (None, None, 1, 2)[len(self.log) % 4]
            self.log.append(ContestReopened("contest", self.contest.reopened, at_most))

    def void(self) -> None:
        """An operation voids a vote, or restores it: again, and out of order, too."""
        cast: list[CastVote | VoteCast] = [event for event in self.log if isinstance(event, VoteCast)]
        vote = self.rng.choice([self.some_vote(), *cast, *cast])
        what = "contest", vote.voter, vote.vote_id, self.rng.choice("vw"), 0
        self.log.append(self.rng.choice([VoteVoided, VoteVoided, VoteRestored])(*what))

    def report(self) -> None:
        source, mode = self.rng.choice(["sms", "tv"]), self.rng.choice(["cumulative", "cumulative", "delta"])
        counts = tuple((mapped, self.rng.randrange(9), 1, 0) for mapped in "xy" if self.rng.random() < 0.7)
        allow = self.rng.random() < 0.3
        name = str(self.rng.randrange(12))
        self.log.append(a_report(name, *counts, source=source, mode=mode, allow_decrease=allow))

    def look(self) -> None:
        self.check()

    def check(self) -> None:
        """The view holds what was counted, up to where it stands."""
        log = self.log[: self.ledger.state().position.offset]
        tally = folded(log)
        assert not self.ledger.differences(tally)
        contest = tally.contests.get("contest", ContestTally())
        check_fold("contest", contest, plainly(log))
        check_sources(contest, log)
        check_sums(self.ledger)


def check_sums(ledger: LuaLedger) -> None:
    """Sources sum to the total, and so do participants."""
    counts = at_once(ledger._views.counts(0, "contest"))
    assert counts is not None
    participants = {participant for participant, _ in counts.figures if participant}
    for source in SOURCES:
        its = sum(counts.figures[participant, source].count for participant in participants)
        assert counts.figures.get(("", source), VoteSums()).count == its
    for participant in participants | {""}:
        total = sum(counts.figures.get((participant, source), VoteSums()).count for source in SOURCES)
        assert counts.figures.get((participant, ""), VoteSums()).count == total
