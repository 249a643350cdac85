"""Wires up the service that casts and removes votes in a process."""

from contextlib import suppress

from libs.catalogue.contests.contest_mapper import load_contest
from libs.deployment.deployment import Deployment
from libs.storage.object_store import StorageUnavailable
from libs.storage.secrets import contest_secret
from libs.tally.contest import Contest
from libs.voting.cast_reader import CastReader
from libs.voting.contest_cache import ContestCache
from libs.voting.protocol_driver import Driver
from libs.voting.service import VotingService


async def create_voting_service(servers: Deployment) -> VotingService:
    """Build it on the process's connections."""
    catalogue, votes, store = servers.catalogue.views, servers.votes, servers.store

    async def load(account: str, key: str) -> Contest | None:
        return await load_contest(catalogue, account, key)

    async def load_version(account: str, key: str) -> int | None:
        stored = await catalogue.get(account, "contests", key)
        return None if stored is None else stored.version

    async def load_secret(contest: str) -> bytes:
        return await contest_secret(store, contest)

    contests = ContestCache(load, load_version, load_secret)
    receipts = servers.ring("receipts")
    with suppress(StorageUnavailable):  # each vote reads them again
        await receipts.load()
    addresses, read = servers.address_counters, CastReader(servers.reader, votes).read
    driver = Driver(votes, servers.vote_views, addresses, contests, servers.writer, read, servers.tracing)
    return VotingService(votes, contests, driver, receipts)
