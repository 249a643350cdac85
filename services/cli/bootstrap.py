"""What a deployment needs before its services start, and the keys that development gets with it."""

import asyncio
from typing import Final

import orjson

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.catalogue.api_keys import PERMISSIONS
from libs.contracts.catalogue import KeyRules
from libs.contracts.topics import test_world
from libs.deployment.identity import create_deployment
from libs.kafka.settings import KafkaSettings
from libs.storage.store import Store, open_store
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue import CatalogueViews
from libs.views.functions import load_functions, open_valkey
from services.cli.commands.keys import issue_key

ACCOUNT: Final = "dev"
UNLIMITED = 0
"""Rate of the development key."""
STORED: Final = "development/{namespace}.json"
READABLE_S: Final = 30.0
POLL_S: Final = 0.05


async def prepare(kafka: str, valkey: str, namespace: str, partitions: int, storage_url: str) -> None:
    """Make the topics, begin their logs and load the Valkey functions; safe to repeat."""
    settings, store = KafkaSettings(kafka_bootstrap_servers=kafka), open_store(storage_url)
    await create_deployment(settings, namespace, partitions, store)
    connection = open_valkey(valkey)
    try:
        await load_functions(connection)
    finally:
        await connection.close()


async def development_credentials(
    kafka: str, valkey: str, namespace: str, partitions: int, storage_url: str
) -> dict[str, str]:
    """A key with all permissions in each world; made once, and kept in the object store from run to run."""
    del partitions
    store = open_store(storage_url)
    settings = KafkaSettings(kafka_bootstrap_servers=kafka)
    account, key = await _credentials(store, settings, valkey, namespace)
    test_account, test_key = await _credentials(store, settings, valkey, test_world(namespace))
    return {
        "account": account,
        "api_key": key,
        "service_brand": account,
        "service_key": key,
        "test_service_brand": test_account,
        "test_service_key": test_key,
    }


async def _credentials(store: Store, settings: KafkaSettings, valkey: str, namespace: str) -> tuple[str, str]:
    name = STORED.format(namespace=namespace)
    stored = await store.get(name)
    if stored is not None:
        kept = orjson.loads(stored)
        if await _is_known(valkey, namespace, kept["api_key"]):
            return kept["account"], kept["api_key"]
        await store.delete(name)
    issued = await issue_key(settings, valkey, namespace, ACCOUNT, PERMISSIONS, KeyRules(rate=UNLIMITED))
    kept = {"account": issued.account, "api_key": issued.api_key}
    await store.put_if_absent(name, orjson.dumps(kept))
    return issued.account, issued.api_key


async def _is_known(valkey: str, namespace: str, token: str) -> bool:
    connection = open_valkey(valkey)
    try:
        return await _when_readable(ApiKeyCache(CatalogueViews(connection, namespace)), token)
    finally:
        await connection.close()


async def _when_readable(ring: ApiKeyCache, token: str) -> bool:
    """Once all keys can be read: a projector that was just started may still have to fold them."""
    deadline = asyncio.get_running_loop().time() + READABLE_S
    while True:
        try:
            await ring.refresh()
        except ViewsUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(POLL_S)
        else:
            return ring.get(token) is not None
