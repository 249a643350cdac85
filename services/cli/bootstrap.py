"""Prepares a deployment before its services start, and creates API keys for development."""

import asyncio
from collections.abc import Iterable
from typing import Final

import orjson

from libs.catalogue import api_keys
from libs.catalogue.api_key_cache import ApiKeyCache
from libs.catalogue.api_keys import PERMISSIONS, IssuedKey
from libs.contracts.catalogue import NO_RULES, KeyRules
from libs.contracts.topics import legacy_test_namespace
from libs.deployment.addresses import DeploymentAddresses
from libs.deployment.deployment import Deployment
from libs.deployment.identity import create_deployment
from libs.kafka.settings import KafkaSettings
from libs.storage.store import Store, open_store
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.views.catalogue import CatalogueViews
from libs.views.functions import load_functions, open_valkey

ACCOUNT: Final = "dev"
UNLIMITED = 0
"""Rate limit of the development key."""
STORED: Final = "development/{namespace}.json"
PREPARED_S: Final = 30.0
READABLE_S: Final = 30.0
POLL_S: Final = 0.05


async def prepare(kafka: str, valkey: str, namespace: str, partitions: int, storage_url: str) -> None:
    """Create the topics, write their first records and load the Valkey functions; idempotent.

    Repeats for up to `PREPARED_S` while servers that have just started do not respond.
    """
    deadline = asyncio.get_running_loop().time() + PREPARED_S
    while True:
        try:
            return await _prepare(kafka, valkey, namespace, partitions, storage_url)
        except TallyError as error:
            if error.retry_after_s is None or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(error.retry_after_s)


async def issue_key(
    kafka: str, valkey: str, namespace: str, account: str, permissions: Iterable[str], rules: KeyRules = NO_RULES
) -> IssuedKey:
    """Create an API key in the environment `namespace`, as `api_keys.issue_key` does."""
    async with Deployment(DeploymentAddresses(kafka, valkey, namespace, 0, "", {})) as deployment:
        return await api_keys.issue_key(
            await deployment.catalogue.writer(check=False), account, permissions, rules
        )


async def _prepare(kafka: str, valkey: str, namespace: str, partitions: int, storage_url: str) -> None:
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
    """Return a key with all permissions for each environment; created once, then kept in the object store."""
    del partitions
    store = open_store(storage_url)
    account, key = await _credentials(store, kafka, valkey, namespace)
    test_account, test_key = await _credentials(store, kafka, valkey, legacy_test_namespace(namespace))
    return {
        "account": account,
        "api_key": key,
        "service_brand": account,
        "service_key": key,
        "test_service_brand": test_account,
        "test_service_key": test_key,
    }


async def _credentials(store: Store, kafka: str, valkey: str, namespace: str) -> tuple[str, str]:
    name = STORED.format(namespace=namespace)
    stored = await store.get(name)
    if stored is not None:
        credentials = orjson.loads(stored)
        if await _exists(valkey, namespace, credentials["api_key"]):
            return credentials["account"], credentials["api_key"]
        await store.delete(name)
    issued = await issue_key(kafka, valkey, namespace, ACCOUNT, PERMISSIONS, KeyRules(rate=UNLIMITED))
    credentials = {"account": issued.account, "api_key": issued.api_key}
    await store.put_if_absent(name, orjson.dumps(credentials))
    return issued.account, issued.api_key


async def _exists(valkey: str, namespace: str, token: str) -> bool:
    connection = open_valkey(valkey)
    try:
        return await _exists_when_readable(ApiKeyCache(CatalogueViews(connection, namespace)), token)
    finally:
        await connection.close()


async def _exists_when_readable(cache: ApiKeyCache, token: str) -> bool:
    """Return whether the key exists, once all keys are readable: a new projector may still be folding them."""
    deadline = asyncio.get_running_loop().time() + READABLE_S
    while True:
        try:
            await cache.refresh()
        except ViewsUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(POLL_S)
        else:
            return cache.get(token) is not None
