"""Wires up the service that casts and removes votes in a process."""

from contextlib import suppress

from libs.catalogue.contests.contest_mapper import load_contest
from libs.contracts.votes_log import VotesLog
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.storage.object_store import StorageUnavailable, Store
from libs.storage.secret_rings import SecretRing
from libs.storage.secrets import contest_secret
from libs.tally.contest import Contest
from libs.telemetry.tracing import Tracing
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import Valkey
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.vote_views import VoteViews
from libs.voting.cast_reader import cast_reader
from libs.voting.contest_cache import ContestCache
from libs.voting.protocol_driver import Driver
from libs.voting.service import VotingService

SINGLE_RECORD_BYTES = 4_000
"""Fetch size that suffices to read one vote from the log."""


async def create_voting_service(
    namespace: str,
    votes: VotesLog,
    valkey: Valkey,
    log: LogWriter,
    reader: LogReader,
    store: Store,
    tracing: Tracing | None = None,
) -> VotingService:
    """Build it on connections that the caller opens and closes."""
    views = VoteViews(valkey, namespace, votes)
    catalogue = CatalogueViews(valkey, namespace)

    async def load(account: str, key: str) -> Contest | None:
        return await load_contest(catalogue, account, key)

    async def load_version(account: str, key: str) -> int | None:
        stored = await catalogue.get(account, "contests", key)
        return None if stored is None else stored.version

    async def load_secret(contest: str) -> bytes:
        return await contest_secret(store, contest)

    contests = ContestCache(load, load_version, load_secret)
    receipts = SecretRing(store, "receipts")
    with suppress(StorageUnavailable):  # each vote reads them again
        await receipts.load()
    addresses, read = AddressCounters(valkey, namespace), cast_reader(reader, votes)
    return VotingService(votes, contests, Driver(votes, views, addresses, contests, log, read, tracing), receipts)
