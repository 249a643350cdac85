"""What a stream's reader may see of a snapshot: the same as in a plain read at that moment."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.catalogue.contests.closing import is_sealed
from libs.tally.contest import Phase
from services.query.public_results import public_answer
from services.query.responses import Answer
from services.query.snapshot import Snapshot
from services.query.streams import events
from services.query.streams.events import PhaseState
from services.query.streams.updates import GONE, Seen, Update
from services.query.vote_count_record import vote_count, vote_count_by_source

View = Callable[[Snapshot, int], Update]
"""What is told of a snapshot at a time (microseconds since 1970). Equal views tell the same."""


@dataclass(frozen=True, slots=True)
class KeyView:
    """Of a key's holder."""

    by_source: bool
    sees_hidden: bool

    def __call__(self, snapshot: Snapshot, now: int) -> Update:
        hidden = snapshot.hides(now) and not self.sees_hidden
        render = vote_count_by_source if self.by_source else vote_count
        return _told(snapshot, now, hidden, "counts", None if hidden else snapshot.answer(render))


@dataclass(frozen=True, slots=True)
class PublicView:
    """Of everybody, or of those who voted."""

    has_voted: bool

    def __call__(self, snapshot: Snapshot, now: int) -> Update:
        if snapshot.phase is Phase.SETUP:
            return GONE
        hidden = snapshot.hides_from_public(now, self.has_voted)
        return _told(snapshot, now, hidden, "results", public_answer(snapshot, hidden))


def _told(snapshot: Snapshot, now: int, hidden: bool, name: str, answer: Answer | None) -> Update:
    contest = snapshot.contest
    final, sealed = snapshot.results.final, is_sealed(snapshot.stored.document)
    standing = PhaseState(snapshot.phase, contest.start, contest.end, final, sealed, hidden)
    status = events.phase(standing, now)
    if answer is None:
        return Update(Seen(standing, None), status)
    version = answer.tag.strip('"')
    return Update(Seen(standing, version), status, events.figures(name, version, answer.body))
