"""Appends a reserved event, and resolves an unknown append by the fold or a fence, after which it may be retried.

The steps are shared by casts and removals. `casting.py` and `removal.py` reserve again after a fence.
"""

from libs.contracts.log_records import Appended
from libs.contracts.vote_states import VoteState
from libs.tally.errors import NotAppended
from libs.tally.events import VoteCast, VoteRemoved
from libs.voting.protocol.effects import (
    Append,
    AwaitRecord,
    Confirm,
    IsDecided,
    Release,
    Steps,
)

Recorded = int | VoteState | NotAppended | None
"""The confirmed record's offset, or the state that decided a record in doubt, or the error of a record that is not
in the log, or None: still in doubt."""


def record(event: VoteCast | VoteRemoved, is_decided: IsDecided) -> Steps[Recorded]:
    """Append a reserved event.

    An acknowledged record counts if the gate is still open under its fence epoch after the acknowledgement.
    Otherwise, and if the outcome is unknown, the record is in doubt: the fold decides it, or a fence ends it.
    """
    appended = yield Append(event)
    if isinstance(appended, NotAppended):
        yield Release(event.incarnation, isinstance(event, VoteRemoved))
        return appended
    offset = None
    if isinstance(appended, Appended):
        offset = appended.offset if appended.exact else None
        confirmed = yield Confirm(event.incarnation)
        if confirmed is True and offset is not None:
            return offset
    state: VoteState | None = yield AwaitRecord(is_decided, event.incarnation, offset)
    return state
