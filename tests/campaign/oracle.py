"""What clients were told, and what must therefore be true: of each vote, each voter, each contest."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from libs.views.votes.address_counters import TAKE_S
from tests.support.clients.voting import Contest, moment

ACCEPTED: Final = frozenset({200, 201})
LIMITS: Final = frozenset({"participant_limit_reached", "contest_limit_reached"})
IP_LIMIT: Final = "ip_limit_reached"
ENDED: Final = frozenset({"contest_not_running"})
ANSWERED_AGAIN: Final = (
    *("vote_id", "contest_key", "accepted_at", "source", "choices"),
    *("remaining", "next_free_vote_at", "receipt"),
)
"""Members of an acceptance, which are the same whenever the vote is sent again, alone or in a batch."""


@dataclass(eq=False)
class Vote:
    """A vote by its id: what was sent, and all that was answered."""

    contest: str
    voter: str
    vote_id: str
    slot: str
    """Of the votes of one slot the last one counts; a plain vote has a slot of its own."""
    body: Mapping[str, Any]
    asked_at: float = field(default_factory=time.monotonic)
    answered_at: float | None = None
    """Time of the first final answer."""
    acceptance: dict[str, Any] | None = None
    refusal: str | None = None
    unanswered: int = 0
    """Attempts that are under way, or whose answer was lost: each may still be recorded."""
    removal: str | None = None
    """`asked` until a removal is answered, then `removed`."""

    @property
    def is_refused(self) -> bool:
        return self.acceptance is None and self.refusal is not None and not self.unanswered

    @property
    def must_count(self) -> bool:
        """Return whether it counts, unless a later vote of its slot replaced it."""
        return self.acceptance is not None and self.removal is None

    @property
    def must_not_count(self) -> bool:
        return self.is_refused or self.removal == "removed"


@dataclass
class Rule:
    """A limit on a voter's votes in the contest, from its sending; in force everywhere once answered."""

    most: int
    sent_at: float
    answered_at: float | None = None


@dataclass
class Poll:
    """A contest with all that was asked and answered about it."""

    name: str
    contest: Contest
    rules: list[Rule]
    refusals: frozenset[str] = LIMITS
    """Codes with which its votes may be refused."""
    votes: dict[str, list[Vote]] = field(default_factory=lambda: defaultdict(list))
    """By voter, in the order of sending."""
    cooldown_s: float | None = None
    """Seconds after a voter's latest vote, after which the limit begins afresh."""
    address_limit: int | None = None
    """Limit on the votes for a participant from one address (`ip` of the body)."""
    closed: list[list[float]] = field(default_factory=list)
    """Times between which it was surely closed: of the first final counts, and before a reopening."""

    def most(self, since: float, until: float) -> int:
        """Return the highest limit that may have been in force at a time between."""
        return max(rule.most for rule in self._in_force(since, until))

    def least(self, since: float, until: float) -> int:
        return min(rule.most for rule in self._in_force(since, until))

    def _in_force(self, since: float, until: float) -> Iterator[Rule]:
        known = [at for at, rule in enumerate(self.rules) if (rule.answered_at or until) < since]
        for rule in self.rules[max(known, default=0) :]:
            if rule.sent_at <= until:
                yield rule

    def all_votes(self) -> Iterator[Vote]:
        for votes in self.votes.values():
            yield from votes


@dataclass
class Wait:
    """A request that was answered for good: when it was first sent, and for how long it was sent again."""

    seat: int
    since: float
    seconds: float
    vote: Vote | None = None
    """The vote that was sent, if it was one."""


@dataclass
class Oracle:
    """The record of all clients. `wrong` are answers that are untrue, or became untrue later."""

    polls: list[Poll] = field(default_factory=list)
    wrong: list[tuple[float, str]] = field(default_factory=list)
    doubts: list[float] = field(default_factory=list)
    """Times of the answers 503 and lost answers."""
    waits: list[Wait] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    """Times of the episodes, from their faults until all was well."""
    partitions: dict[tuple[str, str], int] = field(default_factory=dict)
    """By contest and voter, of contests of the first topic; known after the campaign."""

    def untrue(self, text: str) -> None:
        self.wrong.append((time.monotonic(), text))
        print(f"WRONG: {text}", flush=True)

    def doubt(self) -> None:
        self.doubts.append(time.monotonic())

    def waited(self, seat: int, since: float, vote: Vote | None = None) -> None:
        """Record a request, sent first at `since`, that is answered for good now."""
        self.waits.append(Wait(seat, since, time.monotonic() - since, vote))

    def vote(self, poll: Poll, voter: str, slot: str, vote_id: str, body: Mapping[str, Any]) -> Vote:
        vote = Vote(poll.contest.key, voter, vote_id, slot, body)
        poll.votes[voter].append(vote)
        return vote

    def answered(self, poll: Poll, vote: Vote, sent_at: float, status: int, body: dict[str, Any]) -> None:
        """Compare a final answer with what is known already, and keep it."""
        now = time.monotonic()
        vote.answered_at = vote.answered_at or now
        if status in ACCEPTED:
            acceptance = {name: body.get(name) for name in ANSWERED_AGAIN}
            if vote.acceptance is None:
                vote.acceptance = acceptance
            elif acceptance != vote.acceptance:
                self.untrue(f"{poll.name}: vote {vote.vote_id} was answered {vote.acceptance}, now {acceptance}")
            if status == 201 and any(since < sent_at and now < until for since, until in poll.closed):
                self.untrue(f"{poll.name}: vote {vote.vote_id} is accepted although the counts are final")
        elif status == 409 and body.get("code") in poll.refusals:
            self._refused(poll, vote, body["code"])
        else:
            self.untrue(f"{poll.name}: vote {vote.vote_id} of {vote.voter} is answered {status} {body}")

    def _refused(self, poll: Poll, vote: Vote, code: str) -> None:
        vote.refusal = code
        if vote.acceptance is not None:
            self.untrue(f"{poll.name}: vote {vote.vote_id} was accepted, and is refused now: {code}")
        if code == IP_LIMIT and (held := _held_by_address(poll, vote)) < (poll.address_limit or 0):
            self.untrue(f"{poll.name}: vote {vote.vote_id} is refused after {held} of its address: {code}")
        may_hold = sum(not other.is_refused for other in poll.votes[vote.voter] if other is not vote)
        if code in LIMITS and may_hold < poll.least(vote.asked_at, time.monotonic()):
            self.untrue(f"{poll.name}: vote {vote.vote_id} of {vote.voter} is refused after {may_hold}: {code}")


def _held_by_address(poll: Poll, vote: Vote) -> int:
    """Return the number of other votes for its participant from its address that may have counted against it."""
    return sum(
        not (other.is_refused and (other.answered_at or math.inf) < vote.asked_at)
        for other in poll.all_votes()
        if other is not vote and _at_address(other) == _at_address(vote)
    )


def _at_address(vote: Vote) -> tuple[Any, Any]:
    return vote.body.get("ip"), vote.body.get("participant_key")


def judge_addresses(poll: Poll, disturbed: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Compare the votes of each address with the limit, which is exact where nothing was disturbed meanwhile.

    In a cluster a vote whose counter does not answer in time passes uncounted, which a busy machine is enough for.
    """
    by_address: dict[tuple[Any, Any], list[Vote]] = defaultdict(list)
    for vote in poll.all_votes():
        by_address[_at_address(vote)].append(vote)
    for (address, _), votes in by_address.items():
        since, until = min(one.asked_at for one in votes), max(one.answered_at or math.inf for one in votes)
        accepted = sum(one.acceptance is not None for one in votes)
        is_calm = not any(began < until and since < healed for began, healed in disturbed)
        is_calm = is_calm and all(one.answered_at and one.answered_at - one.asked_at < TAKE_S for one in votes)
        if is_calm and poll.address_limit is not None and accepted > poll.address_limit:
            yield f"{poll.name}: {accepted} votes of {address} are accepted, of at most {poll.address_limit}"


def judge_voter(poll: Poll, voter: str, shown: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Compare a voter's votes as they are shown, by their ids, with what the voter was told."""
    votes = poll.votes[voter]
    counting = {vote_id for vote_id, one in shown.items() if one["counts"]}
    slots: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        slots[vote.slot].append(vote)
    for slot in slots.values():
        ids = {vote.vote_id for vote in slot}
        if len(counting & ids) > 1:
            yield f"{poll.name}: {voter} has {len(counting & ids)} counting votes in one slot: {sorted(ids)}"
        last = next((vote for vote in reversed(slot) if vote.acceptance is not None), None)
        is_certain = not any(vote.unanswered and vote.acceptance is None for vote in slot)
        if last is not None and last.must_count and is_certain and last.vote_id not in counting:
            yield f"{poll.name}: accepted vote {last.vote_id} of {voter} is {shown.get(last.vote_id, 'unknown')}"
    for vote in votes:
        if vote.must_not_count and vote.vote_id in counting:
            reason = vote.removal or vote.refusal
            yield f"{poll.name}: vote {vote.vote_id} of {voter} counts, but was answered {reason}"
        if vote.acceptance is not None and vote.vote_id not in shown:
            yield f"{poll.name}: accepted vote {vote.vote_id} of {voter} is not known"
        status = shown.get(vote.vote_id, {}).get("status")
        if status in ("late", "overruled") and vote.acceptance is not None:
            yield f"{poll.name}: accepted vote {vote.vote_id} of {voter} is {status}"
    ids = {vote.vote_id for vote in votes}
    yield from (f"{poll.name}: {voter} has vote {each}, which was never sent" for each in shown if each not in ids)
    times = [vote.asked_at for vote in votes]
    most = poll.most(min(times), max(vote.answered_at or time.monotonic() for vote in votes))
    accepted_at = [shown[vote.vote_id]["accepted_at"] for vote in votes if vote.vote_id in counting]
    if (found := _most_in_a_period(poll, accepted_at)) > most:
        yield f"{poll.name}: {voter} has {found} counting votes of at most {most}"


def _most_in_a_period(poll: Poll, accepted_at: Sequence[str]) -> int:
    """Return the highest number of votes between two renewals of the allowance; times are in the order of sending.

    Attempts may overtake one another, and a partition's clock may go back once it is corrected. So the votes were
    judged in the order of sending or in that of their times: what is possible in one of them is not wrong.
    """
    if poll.cooldown_s is None:
        return len(accepted_at)
    times = list(map(moment, accepted_at))
    return min(_longest_period(order, poll.cooldown_s) for order in (times, sorted(times)))


def _longest_period(times: Sequence[datetime], cooldown_s: float) -> int:
    periods, last = [0], None
    for at in times:
        if last is not None and (at - last).total_seconds() >= cooldown_s:
            periods.append(0)
        periods[-1] += 1
        last = at if last is None else max(last, at)
    return max(periods)


def judge_counts(poll: Poll, record: Mapping[str, Any], shown: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Compare a contest's counts with the counting votes of all voters, given by voter and vote id."""
    counts: dict[str, int] = defaultdict(int)
    voters: dict[str, set[str]] = defaultdict(set)
    for voter, votes in shown.items():
        for one in votes.values():
            for choice in one["choices"] if one["counts"] else ():
                counts[choice["participant_key"]] += choice["count"]
                voters[choice["participant_key"]].add(voter)
    for key in poll.contest.participants:
        found = record["participants"][key]
        expected = counts[key], len(voters[key])
        if (found["count"], found["unique_voter_count"]) != expected:
            yield f"{poll.name}: {key} has {found}, but its voters' votes are {expected}"
    expected = sum(counts.values()), len(set().union(*voters.values()))
    if (record["count"], record["unique_voter_count"]) != expected:
        yield f"{poll.name}: the contest has {record['count']} votes, but its voters' votes are {expected}"
