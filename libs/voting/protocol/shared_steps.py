"""Outcomes of the protocols, and the steps that casts and removals share.

They append a reserved event, resolve an unknown append by the fold or a fence, after which `casting.py` and
`removal.py` reserve again, and reload a contest whose cached configuration is stale.
"""

from dataclasses import dataclass
from typing import NamedTuple

from libs.contracts.log_records import Appended
from libs.contracts.vote_states import VoteState
from libs.tally.contest import Contest
from libs.tally.errors import RECOVERING, LedgerCatchingUp, NotAppended, TallyError
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.reservations import Stale, VoteTerms
from libs.tally.vote_commands import CastVote
from libs.voting.protocol.effects import (
    Append,
    AwaitRecord,
    Confirm,
    IsDecided,
    LoadContest,
    PutInForce,
    Release,
    Steps,
)


class Accepted(NamedTuple):
    """An accepted vote, recorded in the log. `replayed`: an earlier request with the same id recorded it."""

    command: CastVote
    terms: VoteTerms
    replayed: bool
    receipt: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A vote that no longer counts. `offset` is that of its removal in the log, None if it was removed before."""

    partition: int
    offset: int | None


Outcome = Accepted | TallyError
"""Outcome of a cast vote."""


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


def refresh(former: Contest, stale: Stale) -> Steps[Contest | TallyError]:
    """Load the contest again, and put it in force where none or an older version is.

    Where no version is in force, the load starts after the ledger's answer, and is in force only under the fence
    epoch of that answer.
    """
    contest = yield LoadContest(former, stale.in_force)
    if isinstance(contest, TallyError):
        return contest
    if stale.in_force is None or stale.in_force < contest.version:
        done = yield PutInForce(contest, stale.incarnation)
        if isinstance(done, TallyError):
            return done
        if not done:
            return LedgerCatchingUp(RECOVERING, retry_after_s=1)
    assert isinstance(contest, Contest)
    return contest
