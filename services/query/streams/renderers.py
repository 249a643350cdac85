"""Renders a snapshot for a stream's readers, with the same visibility as a plain read at that moment."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.catalogue.contests.closing_record import is_sealed
from libs.tally.contest import Phase
from services.query.public_results import public_answer
from services.query.responses import Answer
from services.query.snapshot import Snapshot
from services.query.streams import events
from services.query.streams.events import PhaseState
from services.query.streams.lag import Lag
from services.query.streams.updates import GONE, Seen, Update
from services.query.vote_count_record import count_answer, count_answer_by_source

View = Callable[[Snapshot, int, Lag], Update]
"""Renders a snapshot at a time (microseconds since 1970), with the lag then. Equal views render the same."""


@dataclass(frozen=True, slots=True)
class KeyView:
    """Renders for callers with a key."""

    by_source: bool
    sees_hidden: bool

    def __call__(self, snapshot: Snapshot, now: int, lag: Lag) -> Update:
        hidden = snapshot.hides(now) and not self.sees_hidden
        render = count_answer_by_source if self.by_source else count_answer
        return _update(snapshot, now, lag, hidden, "counts", None if hidden else snapshot.answer(render))


@dataclass(frozen=True, slots=True)
class PublicView:
    """Renders for the public, or for those who voted."""

    has_voted: bool

    def __call__(self, snapshot: Snapshot, now: int, lag: Lag) -> Update:
        if snapshot.phase is Phase.SETUP:
            return GONE
        hidden = snapshot.hides_from_public(now, self.has_voted)
        return _update(snapshot, now, lag, hidden, "results", public_answer(snapshot, hidden))


def _update(snapshot: Snapshot, now: int, lag: Lag, hidden: bool, name: str, answer: Answer | None) -> Update:
    contest = snapshot.contest
    final, sealed = snapshot.results.final, is_sealed(snapshot.stored.document)
    state = PhaseState(snapshot.phase, contest.start, contest.end, final, sealed, hidden, None if hidden else lag)
    status = events.phase(state, now)
    if answer is None:
        return Update(Seen(state, None), status)
    version = answer.tag.strip('"')
    return Update(Seen(state, version), status, events.counts(name, version, answer.body))
