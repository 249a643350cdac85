"""Mutations of the reference fold, each without one guard."""

from dataclasses import replace
from typing import Any

from libs.tally.events import VoteRemoved, VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus
from tests.libs.views.simulation.mutations import REMOVE, VOID


def _voiding_frees_the_slot(tally: ContestTally, event: VoteVoided | VoteRestored) -> bool:
    voids = VOID(tally, event)
    if voids and isinstance(event, VoteVoided):
        standing = tally.voters[event.voter]
        standing.free_slot(standing.votes[event.vote_id].cast)
    return voids


def _voiding_gives_the_allowance_back(tally: ContestTally, event: VoteVoided | VoteRestored) -> bool:
    voids = VOID(tally, event)
    if voids:
        standing = tally.voters[event.voter]
        tally._move_contest(standing, standing.votes[event.vote_id], -1 if isinstance(event, VoteVoided) else 1, 0)
    return voids


def _what_was_replaced_or_removed_is_restored(tally: ContestTally, event: VoteVoided | VoteRestored) -> bool:
    standing = tally.voters.get(event.voter, VoterLedger())
    vote = standing.votes.get(event.vote_id)
    if isinstance(event, VoteRestored) and vote is not None and vote.void == event.void:
        tally._set(vote, VoteStatus.VOIDED)
    return VOID(tally, event)


def _an_operation_voids_again_and_again(tally: ContestTally, event: VoteVoided | VoteRestored) -> bool:
    vote = tally.voters.get(event.voter, VoterLedger()).votes.get(event.vote_id)
    if vote is not None and isinstance(event, VoteVoided):
        vote.voids = ()
    return VOID(tally, event)


def _an_operation_restores_what_another_voided(tally: ContestTally, event: VoteVoided | VoteRestored) -> bool:
    vote = tally.voters.get(event.voter, VoterLedger()).votes.get(event.vote_id)
    if vote is not None and vote.void is not None and isinstance(event, VoteRestored):
        event = replace(event, void=vote.void)
    return VOID(tally, event)


def _a_voided_vote_cannot_be_removed(tally: ContestTally, event: VoteRemoved, offset: int) -> bool:
    vote = tally.voters.get(event.voter, VoterLedger()).votes.get(event.vote_id)
    return (vote is None or vote.status is not VoteStatus.VOIDED) and REMOVE(tally, event, offset)


def _voids_at_once_behind_the_close(tally: ContestTally, event: VoteVoided | VoteRestored, offset: int) -> bool:
    return VOID(tally, event)


def _the_former_period_is_over(standing: VoterLedger, source: str, epoch: int) -> bool:
    return source == "c-free" and epoch < standing.epoch


PERIOD_MUTATIONS: dict[str, dict[str, Any]] = {
    "the sums of the former period are merged": {"is_over": _the_former_period_is_over}
}
"""Methods of a voter's standing, for the ledger and for what it is compared with alike."""
FOLD_MUTATIONS: dict[str, dict[str, Any]] = {
    "voiding frees the slot": {"void": _voiding_frees_the_slot},
    "voiding gives the allowance back": {"void": _voiding_gives_the_allowance_back},
    "what was replaced or removed is restored": {"void": _what_was_replaced_or_removed_is_restored},
    "an operation voids again and again": {"void": _an_operation_voids_again_and_again},
    "an operation restores what another one voided": {"void": _an_operation_restores_what_another_voided},
    "a voided vote cannot be removed": {"remove": _a_voided_vote_cannot_be_removed},
    "voids at once after the close": {"void_later": _voids_at_once_behind_the_close},
}
"""Methods of the fold itself, for the ledger and for what it is compared with alike."""
