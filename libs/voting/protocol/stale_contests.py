"""Reloads a contest whose cached configuration is stale, and puts the newer one in force."""

from libs.tally.contest import Contest
from libs.tally.errors import RECOVERING, LedgerCatchingUp, TallyError
from libs.tally.reservations import Stale
from libs.voting.protocol.effects import LoadContest, PutInForce, Steps


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
