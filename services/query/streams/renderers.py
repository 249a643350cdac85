"""Renders a snapshot for a stream's readers, with the same visibility as a plain read at that moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from libs.catalogue.contests.seals import is_sealed
from libs.tally.contest import Phase
from services.query.count_answers import ANSWERS, count_answer
from services.query.counts_snapshot import Render, Snapshot
from services.query.encoded_response import EncodedResponse
from services.query.public_results import public_answer
from services.query.result_details import details_answer, linked_details_answer, screen_details_answer
from services.query.show_board import board_answer, linked_board_answer
from services.query.streams import sse_events as events
from services.query.streams.counting_lag import CountingLag
from services.query.streams.sse_events import PhaseState
from services.query.streams.subscriber import GONE, Seen, Update

COUNTS: Final[dict[tuple[bool, bool], Render]] = {
    (False, False): ANSWERS[False, False],
    (True, False): ANSWERS[True, False],
    (False, True): ANSWERS[False, False],
    (True, True): partial(count_answer, sources=True, held=True),
}
"""Bodies of `counts` events by the flags `sources` and `details`; titles come in events of their own."""
View = Callable[[Snapshot, int, CountingLag], Update]
"""Renders a snapshot at a time (microseconds since 1970), with the lag then. Equal views render the same."""


@dataclass(frozen=True, slots=True)
class KeyView:
    """Renders for callers with a key."""

    by_source: bool
    details: bool
    sees_hidden: bool

    def __call__(self, snapshot: Snapshot, now: int, lag: CountingLag) -> Update:
        hidden = snapshot.hides and not self.sees_hidden
        answer = None if hidden else snapshot.answer(COUNTS[self.by_source, self.details])
        details = snapshot.record_answer(details_answer) if self.details else None
        return _update(snapshot, now, lag, hidden, "counts", answer, details)


@dataclass(frozen=True, slots=True)
class PublicView:
    """Renders for the public, or for those who voted."""

    has_voted: bool

    def __call__(self, snapshot: Snapshot, now: int, lag: CountingLag) -> Update:
        if snapshot.phase is Phase.SETUP:
            return GONE
        hidden = snapshot.hides_from_public(self.has_voted)
        answer = public_answer(snapshot, hidden)
        return _update(snapshot, now, lag, hidden, "results", answer, show=_public_show(snapshot))


@dataclass(frozen=True, slots=True)
class ScreenView:
    """Renders for the screens of a show, which receive only what they are to show now."""

    is_linked: bool
    """They were opened without a key."""

    def __call__(self, snapshot: Snapshot, now: int, lag: CountingLag) -> Update:
        hidden = snapshot.hides_from_screens
        board = None if hidden else snapshot.answer(linked_board_answer if self.is_linked else board_answer)
        details = snapshot.record_answer(linked_details_answer if self.is_linked else screen_details_answer)
        show = _public_show(snapshot) if self.is_linked else None
        return _update(snapshot, now, lag, hidden, "board", board, details, show)


NO_CALL: Final = {"is_shown": False, "url": None, "text": None}


def _public_show(snapshot: Snapshot) -> Mapping[str, Any]:
    """Return what the show tells everybody: no call to vote before it is shown."""
    show = snapshot.show.shown()
    return show if show["call_to_vote"]["is_shown"] else show | {"call_to_vote": NO_CALL}


def _update(
    snapshot: Snapshot,
    now: int,
    lag: CountingLag,
    hidden: bool,
    name: str,
    answer: EncodedResponse | None,
    details: EncodedResponse | None = None,
    show: Mapping[str, Any] | None = None,
) -> Update:
    contest = snapshot.contest
    state = PhaseState(
        phase=snapshot.phase,
        start=contest.start,
        end=contest.end,
        final=snapshot.results.final,
        sealed=is_sealed(snapshot.stored.document),
        visibility=snapshot.visibility,
        result_release=snapshot.record.contest_config.result_release,
        hidden=hidden,
        is_public=not snapshot.hides_from_public(has_voted=False),
        is_counting=not lag.is_stopped,
        held_final=snapshot.frozen is not None and snapshot.frozen.results.final,
        show=snapshot.show.shown() if show is None else show,
        lag=None if hidden else lag,
        updated=snapshot.updated,
    )
    seen, status = Seen(state, None), events.phase(state, now)
    counts = beside = b""
    if details is not None:
        seen, beside = seen._replace(details=details.tag), events.details(details.body)
    if answer is not None:
        version = answer.tag.strip('"')
        seen, counts = seen._replace(version=version), events.counts(name, version, answer.body)
    return Update(seen, status, counts, beside)
