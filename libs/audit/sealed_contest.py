"""Certificates of one contest: made from the log, stored, compared with the log, and proofs by them."""

import time
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from libs.audit.log_fold import slices
from libs.catalogue.contests.closing_record import closing_of, reopened_of
from libs.catalogue.contests.corrections import Correction, corrections
from libs.catalogue.contests.seals import Seal
from libs.catalogue.errors import NotClosed, NotSealed
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Document
from libs.certificates.builder import Batches, CertifiedLog, Sealing
from libs.certificates.merkle_proofs import proof_of, root_of
from libs.certificates.service import SealingService, load, load_leaves, save, save_leaves
from libs.contracts.certificates import Certificate, Proof, differences
from libs.contracts.topics import Log, Topic
from libs.deployment.deployment import Deployment, Progress
from libs.tally.errors import TallyError


class LogDiffers(TallyError):
    """The log holds other records than those that were sealed."""


class NotInSet(TallyError):
    """No vote in the sealed set has this receipt."""


class ServedLog:
    """Reads the log from the servers, each partition up to its end offset at the time of the call."""

    def __init__(self, deployment: Deployment) -> None:
        self._reader = deployment.reader
        self._votes = deployment.votes
        self._catalogue = deployment.catalogue.topic

    def topic_from(self, first: int) -> Topic:
        return self._votes.topic_from(first)

    async def size(self) -> int:
        return sum((await self._reader.end_offsets(self._votes.name, self._votes.numbers)).values())

    def catalogue(self, account: str) -> Batches:
        return self._records(self._catalogue, self._catalogue.partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records(self._votes, partition)

    async def _records(self, topic: Log, partition: int) -> Batches:
        ends = await self._reader.end_offsets(topic.name, [partition])
        async with aclosing(slices(self._reader, topic, partition, 0, ends[partition])) as pieces:
            async for records in pieces:
                yield records


@dataclass(frozen=True, slots=True)
class SealableContest:
    """A contest, the account that owns it, and the service that seals it."""

    deployment: Deployment
    contest: str
    account: str
    records: RecordService
    sealer: SealingService

    @classmethod
    async def find(cls, deployment: Deployment, contest: str) -> "SealableContest":
        """Raises `NotFound`, and as `Deployment.check`."""
        account = await deployment.catalogue.owner_of(contest)
        records = await deployment.catalogue.record_service()
        sealer = SealingService(records, deployment.vote_views, deployment.votes, account)
        return cls(deployment, contest, account, records, sealer)

    async def document(self) -> Document:
        return (await self.records.get(CONTESTS, self.account, self.contest)).document

    async def certificate(self, seq: int | None = None) -> Certificate:
        """Return the certificate of closing `seq`, by default the latest sealed one.

        Raises `NotSealed`, and as `load`.
        """
        document = await self.document()
        closing = closing_of(document)
        latest = reopened_of(document) if closing is None else closing.seq
        for number in range(latest, 0, -1) if seq is None else [seq]:
            found = await load(self.deployment.store, self.contest, number)
            if found is not None:
                return found
        raise NotSealed(f"Closing {seq} was never sealed." if seq else "The contest was never sealed.")

    async def corrections(self) -> list[Correction]:
        """Return the titles that were changed after the closing in force."""
        return corrections(await self.deployment.catalogue.views.contest_config(self.account, self.contest))

    async def sealing(self, seq: int) -> Sealing:
        """Return the computation of closing `seq` from the log."""
        return await Sealing.open(ServedLog(self.deployment), self.account, self.contest, seq)

    async def certify(self, seq: int, *, keeps: bool) -> Certificate:
        """Compute the certificate of closing `seq` from the log; `keeps` stores its leaves for proofs."""
        progress = self.deployment.progress
        progress.begin("Reading the log", await ServedLog(self.deployment).size())
        keep = partial(save_leaves, self.deployment.store, self.contest, seq) if keeps else None
        return await (await self.sealing(seq)).certify(progress.advance, keep)

    async def seal(self, certificate: Certificate) -> None:
        """Store the certificate, then seal the contest: so every sealed contest has one. Repeatable."""
        await save(self.deployment.store, certificate)
        now = time.time_ns() // 1000
        await self.sealer.seal(self.contest, Seal(certificate.seq, certificate.sha256, now))

    async def prove(self, certificate: Certificate, receipt: str) -> Proof:
        """Return the proof that the receipt's vote is in the sealed set. Raises `LogDiffers` and `NotInSet`."""
        progress = self.deployment.progress
        sealing: Sealing | None = None
        for sealed in certificate.partitions:
            leaves = await load_leaves(self.deployment.store, certificate, sealed)
            if leaves is None:
                if sealing is None:
                    progress.begin("Reading the log", await ServedLog(self.deployment).size())
                    sealing = await self.sealing(certificate.seq)
                leaves = await sealing.leaves(sealed.partition, progress.advance)
            if root_of([leaf.hash for leaf in leaves]).hex() != sealed.root:
                raise LogDiffers(
                    f"Partition {sealed.partition} of the log differs from the sealed one: "
                    "`tally certificate verify` lists the differences."
                )
            proof = proof_of(certificate, sealed.partition, leaves, receipt)
            if proof is not None:
                return proof
        raise NotInSet(
            "No vote with this receipt is in the sealed set: it was too late, or belongs to another contest."
        )


async def differences_from(log: CertifiedLog, given: Certificate, progress: Progress) -> list[str]:
    """List the problems of a certificate itself, and its differences from the log."""
    found = [] if given.is_whole else ["/sha256: is not that of the certificate's contents: the file was changed"]
    progress.begin("Reading the log", await log.size())
    try:
        sealing = await Sealing.open(log, given.decision.account, given.contest_key, given.seq)
        return found + differences(given, await sealing.certify(progress.advance))
    except NotClosed as error:
        return [*found, error.message]
