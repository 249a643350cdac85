"""Facts about a contest that a view must export after a fold of the log, and their labels in a report.

Each function yields those of all voters, sources or participants, or of some of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.audit.log_fold import LogFold, Subject
from libs.tally.events import VoteRestored
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import FoldedVote
from libs.views.votes.ledger_export import Fact, Facts, StoredVote
from libs.views.votes.serialization import digest, raw, unlimited

Names = Collection[Any] | None
"""Voters, sources or subjects; None for all."""


def tally_of(fold: LogFold, contest: str) -> ContestTally:
    return fold.tally.contests.get(contest, ContestTally())


def voter_facts(tally: ContestTally, names: Names = None) -> Facts:
    for voter in tally.voters if names is None else tally.voters.keys() & names:
        ledger, before = tally.voters[voter], b""
        yield ("voter", voter), (ledger.anonymous, ledger.epoch, ledger.latest)
        for (participant, source, epoch), used in ledger.used.items():
            yield ("used", voter, participant, source, epoch), (used.votes, used.limit or 0, used.active)
        for (slot, source), vote_id in ledger.slots.items():
            yield ("slot", voter, slot, source), digest(vote_id)
        for vote_id, vote in ledger.votes.items():
            name = digest(vote_id)
            yield ("vote", voter, name), _stored(vote, before)
            if vote.cast.form != "plain":
                rating = vote.cast.rating
                choices = vote.cast.choices if vote.cast.form == "ballot" else ()
                yield ("choices", voter, name), (choices, rating and (rating.value, rating.sub_ratings))
            if vote.voids:
                yield ("voids", voter, name), tuple(its.void for its in vote.voids)
            before = name


def _stored(vote: FoldedVote, before: bytes) -> StoredVote:
    cast = vote.cast
    participant, votes = cast.choices[0] if cast.choices and cast.form != "ballot" else ("", 0)
    return StoredVote(
        status=vote.status,
        source=cast.source,
        content=raw(cast.content),
        accepted_at=cast.accepted_at,
        offset=vote.offset,
        participant=participant,
        votes=votes,
        remaining_participant=unlimited(cast.remaining_participant),
        remaining_contest=unlimited(cast.remaining_contest),
        next_free_vote_at=cast.next_free_vote_at or 0,
        epoch=vote.epoch,
        has_choices=cast.form != "plain",
        before=before,
    )


def waiting_facts(tally: ContestTally, names: Names = None) -> Facts:
    for (voter, vote_id), (removal, offset) in tally.waiting.items():
        if names is None or voter in names:
            vote = offset, removal.anonymous, raw(removal.content), removal.source, removal.removed_at
            yield ("removal waiting", voter, digest(vote_id)), vote
    for (voter, vote_id), kept in tally.waiting_voids.items():
        if names is None or voter in names:
            voids = tuple((offset, int(isinstance(event, VoteRestored)), event.void) for event, offset in kept)
            yield ("voids waiting", voter, digest(vote_id)), voids


def _source_facts(fold: LogFold, contest: str, names: Names) -> Facts:
    past = fold.minutes.of(contest)
    for name, source in tally_of(fold, contest).sources.items():
        if names is not None and name not in names:
            continue
        yield ("source", name), _latest(past.get(("s", name), {}))
        for mapped_id in source.figures:
            yield ("figures", name, mapped_id), _latest(past.get(("f", name, mapped_id), {}))
        for report_id, report in source.reports.items():
            yield ("report", name, report_id), report
        for number, minute in enumerate(fold.minutes.releases[contest].get(name, ()), 1):
            yield ("release", name, str(number)), minute


def _latest(minutes: Mapping[int, Any]) -> Any:
    return minutes[max(minutes)] if minutes else None


def _row_facts(fold: LogFold, contest: str, names: Names) -> Facts:
    if contest in fold.tally.contests:  # also where no record had an effect
        yield ("row", ""), tally_of(fold, contest).last_offset
    for subject, minutes in _of(fold.minutes.of(contest), names and {("r", name) for name in names}):
        if subject[0] == "r" and subject[1]:
            yield ("row", subject[1]), max(minutes, default=-1)


def _minute_facts(fold: LogFold, contest: str, names: Names) -> Facts:
    """Yield the state at the end of each minute with a change, but for the last one, which is open."""
    for subject, minutes in _of(fold.minutes.of(contest), names):
        yield from ((("minute", subject, minute), minutes[minute]) for minute in sorted(minutes)[:-1])


def _of(past: Mapping[Subject, Any], names: Names) -> Iterable[tuple[Subject, Any]]:
    return past.items() if names is None else [(name, past[name]) for name in names if name in past]


class FactsGroup(NamedTuple):
    """Parts of a contest's views that are exported one after the other, and what a fold expects of them.

    In this order a fact may move from one to the next while they are read.
    """

    parts: Sequence[str]
    expected: Callable[[LogFold, str, Names], Facts]


GROUPS: Final = (
    FactsGroup(
        ("voters", "shares", "spill", "details", "voids"),
        lambda fold, contest, names: voter_facts(tally_of(fold, contest), names),
    ),
    FactsGroup(("waiting",), lambda fold, contest, names: waiting_facts(tally_of(fold, contest), names)),
    FactsGroup(("sources", "figures", "reports", "releases"), _source_facts),
    FactsGroup(("counts",), _row_facts),
    FactsGroup(("minutes",), _minute_facts),
)

LABELS: Final = {
    "voter": "voter {0}: anonymous, allowance period, latest free vote",
    "used": "voter {0}: votes used for {1!r} from {2} in period {3}, with their limit, and those that count",
    "slot": "voter {0}: vote of {1!r} from {2} that a later one replaces",
    "vote": "voter {0}: vote id {1}",
    "choices": "voter {0}: choices and rating of vote id {1}",
    "voids": "voter {0}: operations that voided vote id {1}",
    "removal waiting": "voter {0}: removal of vote id {1} that waits for a reopening",
    "voids waiting": "voter {0}: voids of vote id {1} that wait for a reopening",
    "source": "source {0}: last change, number of ids, of those held, and of releases",
    "figures": "source {0}: id {1}: figures, and minute of the last change",
    "report": "report {0}/{1}",
    "release": "source {0}: release {1}",
    "row": "participant {0}: minute of the last change",
}
SUBJECTS: Final = {"r": "participant {0}", "s": "source {0}", "f": "source {0}: id {1}"}


def label(fold: LogFold, contest: str, fact: Fact) -> str:
    """Describe a fact in words."""
    kind, *names = fact
    if kind == "minute":
        (of, *parts), minute = names
        what = SUBJECTS[of].format(*parts) if parts != [""] else "all"
        return f"{what} at the end of {timestamp((minute + 1) * 60_000_000)}"
    if fact == ("row", ""):
        return "last change"
    if isinstance(names[-1], bytes):
        ledger = tally_of(fold, contest).voters.get(names[0])
        votes = ledger.votes if ledger is not None else ()
        names[-1] = next((vote_id for vote_id in votes if digest(vote_id) == names[-1]), "?")
    return LABELS[kind].format(*names)
