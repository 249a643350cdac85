"""Finds a voter's votes in all contests of an account, whose pseudonyms for the voter differ."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal

from libs.audit.hypothetical_recount import AskedFold, as_cast, records_until
from libs.catalogue.contests.contest_mapper import contest_of
from libs.catalogue.resource_table import CONTESTS
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.contracts.pseudonyms import pseudonym
from libs.deployment.deployment import Deployment
from libs.storage.secrets import find_contest_secret
from libs.tally.errors import SecretErased
from libs.tally.voter_ledger import VoteStatus

PAGE: Final = 500
VOTER: Final = b'"voter":"'


@dataclass(frozen=True, slots=True)
class VoterInContest:
    """A voter's votes in one contest: cast ones and those that count; times in us."""

    contest: str
    title: str
    voter: str
    cast: int
    counted: int
    first: int
    last: int


Kind = Literal["voter", "anonymous"]


async def find_voter(
    deployment: Deployment, account: str, kind: Kind, name: str
) -> tuple[list[VoterInContest], list[str]]:
    """Return the contests with votes of a voter, and those whose secret was erased.

    Reads the partitions of the voter's pseudonyms. Raises the errors of reading the log.
    """
    wanted: dict[int, dict[str, tuple[str, Stored]]] = {}
    erased: list[str] = []
    for stored in await _contests(deployment, account):
        try:
            secret = await find_contest_secret(deployment.store, stored.key)
        except SecretErased:
            erased.append(stored.key)
            continue
        contest = contest_of(account, ContestRecords(stored.version, stored, ()))
        if secret is None or contest is None:
            continue
        voter = pseudonym(secret, kind, name)
        partition = deployment.votes.topic_from(contest.votes_from).partition_of(voter)
        wanted.setdefault(partition, {})[stored.key] = voter, stored
    found = [one for partition, its in sorted(wanted.items()) for one in await _found(deployment, partition, its)]
    return found, erased


async def _contests(deployment: Deployment, account: str) -> list[Stored]:
    views, found = deployment.catalogue.views, list[Stored]()
    after: int | str = ""
    while page := await views.page(account, CONTESTS.name, order="created", after=after, limit=PAGE):
        found += page
        after = page[-1].created
    return found


async def _found(
    deployment: Deployment, partition: int, wanted: dict[str, tuple[str, Stored]]
) -> Sequence[VoterInContest]:
    """Fold the records of these voters and of all contests' fences in a partition."""
    folds = {contest: AskedFold(contest, as_cast) for contest in wanted}
    names = {b"", *(voter.encode() for voter, _ in wanted.values())}
    async with aclosing(records_until(deployment, partition)) as batches:
        async for records in batches:
            some = [
                one for one in records if b'"voter":' not in one.value or any(name in one.value for name in names)
            ]
            for fold in folds.values():
                fold.take(some)
    rows = []
    for contest, (voter, stored) in wanted.items():
        ledger = folds[contest].stands.voters.get(voter)
        votes = [] if ledger is None else [vote for vote in ledger.votes.values() if vote.cast.choices]
        if votes:
            times = [vote.cast.accepted_at for vote in votes]
            counted = sum(vote.status is VoteStatus.COUNTED for vote in votes)
            title = stored.document.get("title") or ""
            rows.append(VoterInContest(contest, title, voter, len(votes), counted, min(times), max(times)))
    return rows


def _voter_in(value: bytes) -> bytes:
    """Return the voter's pseudonym in an event's JSON, without decoding it; b"" for an event of none."""
    return value.partition(VOTER)[2].partition(b'"')[0]
