"""Services and connections shared by the commands about seals."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import typer

from libs.catalogue.contests.closing import closing_of, reopened_of, seal_of
from libs.catalogue.record_service import RecordService
from libs.catalogue.resources import CONTESTS, RESOURCES
from libs.certificates.service import SealingService
from libs.certificates.store import load
from libs.contracts.catalogue import Stored
from libs.contracts.certificates import Certificate
from libs.deployment.deployment import Deployment, check_deployment_of
from libs.kafka.reader import LogReader
from libs.storage.store import Store, open_store
from libs.tally.errors import NotFound
from libs.views.functions import open_valkey
from libs.views.votes import VoteViews
from services.cli.catalogue_access import open_catalogue_access
from services.cli.commands.certificate.log_source import ServedLog


@dataclass(frozen=True, slots=True)
class SealContext:
    """Services for one contest and the account that owns it."""

    contest: str
    account: str
    record_service: RecordService
    sealer: SealingService
    store: Store
    log: ServedLog

    async def record(self) -> Stored:
        return await self.record_service.get(CONTESTS, self.account, self.contest)

    async def certificate(self, seq: int | None = None) -> Certificate:
        """Return the certificate of closing `seq`, by default the latest sealed one.

        Raises `NotFound`, and as `load`.
        """
        document = (await self.record()).document
        closing = closing_of(document)
        latest = reopened_of(document) if closing is None else closing.seq
        for number in range(latest, 0, -1) if seq is None else [seq]:
            found = await load(self.store, self.contest, number)
            if found is not None:
                return found
        raise NotFound(f"Closing {seq} was never sealed." if seq else "The contest was never sealed.")

    async def in_force(self, certificate: Certificate) -> bool:
        """Return whether the contest is sealed with this certificate."""
        seal = seal_of((await self.record()).document)
        return seal is not None and seal.sha256 == certificate.sha256


@asynccontextmanager
async def open_seal_context(stack: Deployment, contest: str) -> AsyncIterator[SealContext]:
    """Connect to the servers. Raises `BadParameter` for an unknown contest."""
    await check_deployment_of(stack)
    valkey = open_valkey(stack.valkey)
    try:
        async with (
            open_catalogue_access(stack.kafka_settings, stack.valkey, stack.namespace) as access,
            LogReader(stack.kafka_settings) as reader,
        ):
            account = await access.views.find_owner("contests", contest)
            if account is None:
                raise typer.BadParameter(f"There is no contest {contest}.", param_hint="CONTEST")
            record_service = RecordService(RESOURCES, access.views, access.writer)
            sealer = SealingService(record_service, VoteViews(valkey, stack.namespace), stack.partitions, account)
            store, log = open_store(stack.storage_url), ServedLog(reader, stack)
            yield SealContext(contest, account, record_service, sealer, store, log)
    finally:
        await valkey.close()
