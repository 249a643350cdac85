"""Context of the commands about seals: one contest, its closing and its log."""

from dataclasses import dataclass

from libs.catalogue.contests.closing_record import closing_of, reopened_of, seal_of
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import CONTESTS
from libs.certificates.builder import Sealing
from libs.certificates.service import SealingService, load
from libs.contracts.certificates import Certificate
from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from services.cli.commands.certificate.log_source import ServedLog
from services.cli.contest_lookup import Titles, read_titles


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
        account, records = (
            await deployment.catalogue.owner_of(contest),
            await deployment.catalogue.record_service(),
        )
        sealer = SealingService(records, deployment.vote_views, deployment.votes, account)
        return cls(deployment, contest, account, records, sealer)

    async def document(self) -> Document:
        return (await self.records.get(CONTESTS, self.account, self.contest)).document

    async def certificate(self, seq: int | None = None) -> Certificate:
        """Return the certificate of closing `seq`, by default the latest sealed one.

        Raises `NotFound`, and as `load`.
        """
        document = await self.document()
        closing = closing_of(document)
        latest = reopened_of(document) if closing is None else closing.seq
        for number in range(latest, 0, -1) if seq is None else [seq]:
            found = await load(self.deployment.store, self.contest, number)
            if found is not None:
                return found
        raise NotFound(f"Closing {seq} was never sealed." if seq else "The contest was never sealed.")

    async def titles(self) -> Titles:
        return await read_titles(self.deployment, self.contest)

    async def is_in_force(self, certificate: Certificate) -> bool:
        """Return whether the contest is sealed with this certificate."""
        seal = seal_of(await self.document())
        return seal is not None and seal.sha256 == certificate.sha256

    async def sealing(self, seq: int) -> Sealing:
        """Return the computation of closing `seq` from the log."""
        return await Sealing.open(ServedLog(self.deployment), self.account, self.contest, seq)
