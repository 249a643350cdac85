"""Given events, the fold of their partition."""

from libs.tally.counts import VoteSums
from libs.tally.events import Event
from libs.tally.fold import PartitionTally
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus
from tests.support.builders import pseudonym


def given(*events: Event) -> PartitionTally:
    tally = PartitionTally()
    for offset, event in enumerate(events):
        tally.evolve(event, offset, 1_000 + offset)
    return tally


def standing(tally: PartitionTally, voter: str = "voter") -> VoterLedger:
    return tally.contests["contest"].voters[pseudonym(voter)]


def statuses(tally: PartitionTally, voter: str = "voter") -> dict[str, VoteStatus]:
    return {vote_id: vote.status for vote_id, vote in standing(tally, voter).votes.items()}


def used(tally: PartitionTally, voter: str = "voter") -> dict[tuple[str, str, int], int]:
    """By (participant or "", source, allowance period), where there is anything used."""
    return {key: its.votes for key, its in standing(tally, voter).used.items() if its.votes}


def figures(tally: PartitionTally, participant: str, source: str) -> VoteSums:
    return tally.contests["contest"].figures[participant, source]


def all_figures(tally: PartitionTally) -> dict[tuple[str, str], VoteSums]:
    """The counts that are not zero."""
    return {key: its for key, its in tally.contests["contest"].figures.items() if its != VoteSums()}


def source(tally: PartitionTally, name: str = "sms") -> SourceTally:
    return tally.contests["contest"].sources[name]
