"""The catalogue of one environment: its views, and its log."""

from collections.abc import Awaitable, Callable
from enum import StrEnum

from libs.catalogue.commands import CommandWriter
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS, RESOURCES
from libs.contracts.catalogue_events import ContestRecords, ContestRestored, OutcomeKind, Stored
from libs.contracts.topics import catalogue_topic, legacy_test_namespace
from libs.kafka.writer import LogWriter
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.catalogue.stored_records import DELETED_CONTESTS
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.request_counters import KeyUses


class Environment(StrEnum):
    """Production or the legacy test environment; they share no data."""

    PRODUCTION = "production"
    TEST = "test"

    def namespace(self, production: str) -> str:
        """Return the environment's namespace, derived from the deployment's own."""
        return legacy_test_namespace(production) if self is Environment.TEST else production


class Catalogue:
    """Records and API keys of one environment. Writes return when a projector has folded them."""

    def __init__(
        self, namespace: str, valkey: ValkeyClient, open_log: Callable[[bool], Awaitable[LogWriter]]
    ) -> None:
        self.topic = catalogue_topic(namespace)
        self.views = CatalogueViews(valkey, namespace)
        self.key_uses = KeyUses(valkey, namespace)
        self._open_log = open_log

    async def writer(self, *, check: bool = True) -> CommandWriter:
        """Return a writer of commands; raises as `Deployment.log`."""
        return CommandWriter(self.topic, await self._open_log(check), self.views)

    async def record_service(self) -> RecordService:
        return RecordService(RESOURCES, self.views, await self.writer())

    async def owner_of(self, contest: str) -> str:
        """Return the account that owns a contest. Raises `NotFound`."""
        account = await self.views.find_owner(CONTESTS.name, contest)
        if account is None and await self.views.find_owner(DELETED_CONTESTS, contest) is not None:
            raise NotFound(f"Contest {contest} was deleted: `tally contests restore {contest}` takes that back.")
        if account is None:
            raise NotFound(f"Contest {contest} not found.")
        return account

    async def deleted_contest(self, key: str) -> tuple[str, Stored]:
        """Return a deleted contest's record, with the account that owned it. Raises `NotFound`."""
        account = await self.views.find_owner(DELETED_CONTESTS, key)
        found = None if account is None else await self.views.get(account, DELETED_CONTESTS, key)
        if account is None or found is None:
            raise NotFound(f"There is no deleted contest {key}.")
        return account, found

    async def restore(self, account: str, contest: str) -> None:
        """Take the deletion of a contest back. Raises `NotFound`, and the errors of `Attempts.append`."""
        writer = await self.writer()
        async with writer.attempts(account, CONTESTS.name, contest) as attempts:
            async for head in attempts:
                _, deleted = await self.deleted_contest(contest)
                due = CONTESTS.due(deleted.document)
                await attempts.append(ContestRestored(**head, contest=contest, due=due))
        if attempts.outcome.kind is not OutcomeKind.OK:
            raise NotFound(f"There is no deleted contest {contest}.")

    async def contest(self, key: str) -> tuple[str, ContestRecords]:
        """Return the account that owns a contest, and the contest's records. Raises `NotFound`."""
        account = await self.owner_of(key)
        return account, await self.views.contest_config(account, key)

    async def contest_record(self, key: str) -> tuple[str, Stored]:
        """Return the account that owns a contest, and the contest's own record. Raises `NotFound`."""
        account = await self.owner_of(key)
        found = await self.views.get(account, CONTESTS.name, key)
        if found is None:
            raise NotFound(f"Contest {key} not found.")
        return account, found
