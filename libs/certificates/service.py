"""Seals a closed contest: ends its external sources, waits for every close marker, and changes the record.

Each certificate is written once to the object store, never changed, and outlives its contest.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import ValidationError

from libs.catalogue.contests.closing_record import Closing, closing_of, votes_from, without_grace
from libs.catalogue.contests.seals import Seal, seal_of, sealed, unsealed
from libs.catalogue.errors import NotClosed
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.certificates.merkle_proofs import Leaf, root_of
from libs.contracts.catalogue_events import Stored
from libs.contracts.certificates import Certificate, SealedPartition
from libs.contracts.topics import VotesLog
from libs.storage.object_store import Store
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.tally.time_conversion import microseconds, timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.reply_types import ClosingState
from libs.views.votes.vote_views import VoteViews

DEADLINE_S: Final = 30.0
"""Timeout for a projector to decide a closing and append its close markers."""
POLL_S: Final = 0.1


class SealingService:
    """Seals contests of one account, whose votes are in `log`. Raises `NotFound` for an unknown contest."""

    def __init__(self, record_service: RecordService, votes: VoteViews, log: VotesLog, account: str) -> None:
        self._record_service = record_service
        self._votes = votes
        self._log = log
        self._account = account

    async def closing(self, contest: str) -> Closing:
        """Return the closing in force, with its markers in all partitions; after the contest's end, wait for them.

        Raises `NotClosed`, and `ViewsUnavailable` after `DEADLINE_S`.
        """
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            states = await self._states(contest)
            stored = await self._record_service.get(CONTESTS, self._account, contest)
            closing = closing_of(stored.document)
            if closing is None:
                _refuse_running(stored, min(state.now for state in states))
            elif all(state.closed >= closing.seq for state in states):
                return closing
            await _pause(deadline)

    async def reporting(self, contest: str, closing: Closing) -> list[str]:
        """Return the external sources without an end marker yet; retired ones end at once."""
        states = await self._states(contest)
        ended = {name for state in states for name, seq in state.sources.items() if seq >= closing.seq}
        return sorted(closing.sources.keys() - ended)

    async def end_grace(self, contest: str, closing: Closing) -> None:
        """End the reports of external sources. Raises `NotClosed` if the contest was reopened meanwhile."""
        now = max(state.now for state in await self._states(contest))
        await self._record_service.amend(
            CONTESTS, self._account, contest, lambda document: without_grace(document, closing.seq, now)
        )

    async def final(self, contest: str, closing: Closing) -> None:
        """Wait until every external source has ended. Raises `ViewsUnavailable` as `closing` does."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while await self.reporting(contest, closing):
            await _pause(deadline)

    async def seal(self, contest: str, seal: Seal) -> Stored:
        """Seal the contest's record; repeatable. Raises `NotClosed` if the contest was reopened meanwhile."""
        written = await self._record_service.amend(
            CONTESTS, self._account, contest, lambda document: sealed(document, seal)
        )
        return written.stored

    async def unseal(self, contest: str) -> Stored:
        """Unseal the contest's record. Raises `NotSealed`."""
        return (await self._record_service.amend(CONTESTS, self._account, contest, unsealed)).stored

    async def _states(self, contest: str) -> Sequence[ClosingState]:
        stored = await self._record_service.get(CONTESTS, self._account, contest)
        numbers = self._log.topic_from(votes_from(stored.document)).numbers
        return [*(await self._votes.closings(numbers, contest)).values()]


def _refuse_running(stored: Stored, now: int) -> None:
    end = ContestRecord.model_validate(stored.document).contest_config.end
    if end is None:
        raise NotClosed("The contest is not closed: it has no end.")
    if now < microseconds(end):
        raise NotClosed(f"The contest is not closed: it ends at {timestamp(microseconds(end))}.")


async def _pause(deadline: float) -> None:
    if asyncio.get_running_loop().time() > deadline:
        raise ViewsUnavailable("The contest has ended, but is not closed yet; retry shortly.", retry_after_s=1)
    await asyncio.sleep(POLL_S)


FOLDER = "certificates"
LEAVES: Final = "certificate_leaves"


class CertificateConflict(TallyError):
    """The stored certificate was changed, or differs from the log."""


async def save(store: Store, certificate: Certificate) -> None:
    """Store a certificate; repeatable. Raises `CertificateConflict`, and `StorageUnavailable`."""
    name, value = _name(certificate.contest_key, certificate.seq), certificate.canonical()
    if await store.put_if_absent(name, value):
        return
    if await store.get(name) != value:
        raise CertificateConflict(
            f"{name} in the object store differs from the certificate that the log gives. One was changed: "
            "compare them with `tally certificate verify` before you continue."
        )


async def load(store: Store, contest: str, seq: int) -> Certificate | None:
    """Return the stored certificate, or None. Raises `CertificateConflict` if it was changed, and
    `StorageUnavailable`.
    """
    name = _name(contest, seq)
    value = await store.get(name)
    if value is None:
        return None
    try:
        certificate = Certificate.model_validate_json(value)
    except ValidationError:
        certificate = None
    if certificate is None or not certificate.is_whole:
        raise CertificateConflict(
            f"{name} in the object store was changed: its sha256 is not that of its contents."
        )
    return certificate


def _name(contest: str, seq: int) -> str:
    return f"{FOLDER}/{contest}/{seq}.json"


async def save_leaves(store: Store, contest: str, seq: int, partition: int, leaves: Sequence[Leaf]) -> None:
    """Store a partition's leaves, so that a proof needs no log. Raises `StorageUnavailable`."""
    text = "".join(" ".join(map(str, leaf)) + "\n" for leaf in leaves)
    await store.replace(_leaves_name(contest, seq, partition), text.encode())


async def load_leaves(store: Store, certificate: Certificate, sealed: SealedPartition) -> list[Leaf] | None:
    """Return the stored leaves of a sealed partition; None if there are none, or others than were sealed.

    Raises `StorageUnavailable`.
    """
    value = await store.get(_leaves_name(certificate.contest_key, certificate.seq, sealed.partition))
    if value is None:
        return None
    try:
        leaves = [Leaf(int(offset), *texts) for offset, *texts in map(str.split, value.decode().splitlines())]
        root = root_of([leaf.hash for leaf in leaves]).hex()
    except (ValueError, TypeError):
        return None
    return leaves if root == sealed.root else None


def _leaves_name(contest: str, seq: int, partition: int) -> str:
    return f"{LEAVES}/{contest}/{seq}/{partition}"


class Sealed(NamedTuple):
    contest: str
    title: str
    account: str
    seal: Seal


async def sealed_contests(store: Store, views: CatalogueViews) -> list[Sealed]:
    """Return an environment's currently sealed contests by key, out of those that have a stored certificate.

    Raises `StorageUnavailable` and `ViewsUnavailable`.
    """
    keys = sorted({name.split("/")[1] for name in await store.names(FOLDER)})
    found = await asyncio.gather(*(_sealed(views, key) for key in keys))
    return [one for one in found if one is not None]


async def _sealed(views: CatalogueViews, contest: str) -> Sealed | None:
    account = await views.find_owner("contests", contest)
    stored = None if account is None else await views.get(account, "contests", contest)
    seal = None if stored is None else seal_of(stored.document)
    if account is None or stored is None or seal is None:
        return None
    return Sealed(contest, stored.document.get("title") or "", account, seal)
