"""A test deployment's partitions, and libraries' functions on a deployment that is opened for one call."""

from collections.abc import Iterable
from typing import Any, Final

from libs.audit import comparison, purchase_reconciliation
from libs.audit.purchase_reconciliation import Reconciliation
from libs.audit.report import VerificationReport
from libs.catalogue import api_keys
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.monitoring.collector import StatusCollector
from libs.monitoring.status import Status
from services.cli.commands.status import read_parts

FEW_PARTITIONS: Final = 4
"""Partitions of the whole service's topics: it polls each several times a second, and every read asks each."""
READ_S: Final = 60.0
"""For a status of servers that answer, on a busy machine."""


async def compare(
    addresses: DeploymentAddresses, contest: str | None = None, **options: Any
) -> VerificationReport:
    async with Deployment(addresses) as deployment:
        return await comparison.compare(deployment, contest, **options)


async def compare_in_parallel(addresses: DeploymentAddresses, contest: str | None = None) -> VerificationReport:
    async with Deployment(addresses) as deployment:
        return await comparison.compare_in_parallel(deployment, contest, processes=2)


async def read_status(addresses: DeploymentAddresses) -> Status:
    """Read the status of all partitions: a command omits those that take too long, as on a busy machine."""
    async with Deployment(addresses) as deployment:
        parts = await read_parts(deployment.description)
        return await StatusCollector(deployment).collect(parts, within_s=READ_S)


async def reconcile_logs(addresses: DeploymentAddresses) -> Reconciliation:
    """Reconcile as if no purchase could still be in progress."""
    async with Deployment(addresses) as deployment:
        return await purchase_reconciliation.reconcile_logs(deployment, 0)


async def issue_key(
    kafka: str, valkey: str, namespace: str, account: str, permissions: Iterable[str]
) -> api_keys.IssuedKey:
    """Create an API key in the environment `namespace`."""
    async with Deployment(DeploymentAddresses(kafka, valkey, namespace, 0, "", {})) as deployment:
        writer = await deployment.catalogue.writer(check=False)
        return await api_keys.issue_key(writer, account, permissions)
