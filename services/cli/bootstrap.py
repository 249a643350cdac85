"""Prepares a deployment before its services start, and creates API keys for development."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from libs.backup.importer import import_logs
from libs.backup.manifest import ImportRefused
from libs.catalogue.api_keys import PERMISSIONS, issue_key
from libs.concurrency.tasks import retried
from libs.contracts.catalogue_events import KeyRules
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.deployment.identity import create_deployment
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.errors import StackError
from libs.views.valkey.function_loading import load_functions

ACCOUNT: Final = "dev"
KEY_NAME: Final = "Development key of tally up"
UNLIMITED = 0
"""Rate limit of the development key."""
STORED: Final = "development/{namespace}.json"
ATTEMPTS: Final = 30


async def prepare(addresses: DeploymentAddresses) -> None:
    """Create the topics, write their first records and load the Valkey functions; idempotent.

    Repeats while servers that have just started do not respond, up to `ATTEMPTS` times, about a second apart.
    """
    await retried(lambda: _prepare(addresses), ATTEMPTS)


async def _prepare(addresses: DeploymentAddresses) -> None:
    async with Deployment(addresses) as deployment:
        await create_deployment(deployment.kafka_settings, deployment.votes, deployment.store)
        await load_functions(deployment.valkey)


async def development_credentials(addresses: DeploymentAddresses) -> dict[str, str]:
    """Return a key with all permissions for each environment; created once, then kept in the object store."""
    async with Deployment(addresses) as deployment:
        account, key = await _credentials(deployment, Environment.PRODUCTION)
        test_account, test_key = await _credentials(deployment, Environment.TEST)
    return {
        "account": account,
        "api_key": key,
        "service_brand": account,
        "service_key": key,
        "test_service_brand": test_account,
        "test_service_key": test_key,
    }


@dataclass(frozen=True, slots=True)
class Restoration:
    """Imports a complete export before a deployment's services start for the first time."""

    export: Path

    async def prepare(self, addresses: DeploymentAddresses) -> None:
        """Raises `StackError` if the export is not whole, or the deployment has other records already."""
        try:
            async with Deployment(addresses) as deployment:
                await import_logs(deployment, self.export, execute=True)
        except ImportRefused as error:
            raise StackError(error.code, error.message) from None
        await prepare(addresses)

    development_credentials = staticmethod(development_credentials)


async def _credentials(deployment: Deployment, environment: Environment) -> tuple[str, str]:
    name = STORED.format(namespace=environment.namespace(deployment.namespace))
    store, catalogue = deployment.store, deployment.catalogue_of(environment)
    stored = await store.get(name)
    if stored is not None:
        credentials = orjson.loads(stored)
        keys = await deployment.keys_of(environment)
        await retried(keys.refresh, ATTEMPTS)  # a new projector may still be folding them
        if keys.get(credentials["api_key"]) is not None:
            return credentials["account"], credentials["api_key"]
        await store.delete(name)
    writer = await catalogue.writer(check=False)
    rules = KeyRules(name=KEY_NAME, rate=UNLIMITED)
    # projectors that join one after the other interrupt the fold for seconds
    issued = await retried(lambda: issue_key(writer, ACCOUNT, PERMISSIONS, rules), ATTEMPTS)
    await store.put_if_absent(name, orjson.dumps({"account": issued.account, "api_key": issued.api_key}))
    return issued.account, issued.api_key
