"""`tally serve`: runs one service in the foreground, as one process or several that share its port."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

from pydantic_settings import BaseSettings
from typer import Argument, BadParameter, Exit, Option

from libs.local_stack import stack_json
from libs.local_stack.child_process import Process, Reaper, keep_running
from libs.local_stack.errors import StackError
from libs.local_stack.service_process import service_command, service_environment
from libs.telemetry.logs import configure_logs
from libs.web.settings import HttpSettings
from services.cli.command_decorator import DataDir
from services.cli.deployment_discovery import DATA_DIR, addresses_in
from services.cli.settings_check import check_environment

SERVERS: Final = frozenset({"kafka_bootstrap_servers", "valkey_url"})
DRAIN_S: Final = 3600.0
"""Seconds that a worker may take to drain: whoever sends the signal decides when it has taken too long."""

logger = logging.getLogger(__name__)


class Service(StrEnum):
    """Services that can run as processes of their own."""

    GATEWAY = "gateway"
    INGESTION = "ingestion"
    QUERY = "query"
    CATALOGUE = "catalogue"
    DASHBOARD = "dashboard"
    PROJECTOR = "projector"


def serve(
    service: Annotated[Service, Argument(help="The service; its settings come from the environment.")],
    workers: Annotated[
        int,
        Option(
            min=1,
            help="Processes that share the port. Worker n (from 0) has its metrics on TALLY_OPERATIONS_PORT + n.",
        ),
    ] = 1,
    data_dir: DataDir = DATA_DIR,
) -> None:
    """Run one service in the foreground, with the servers of the settings or of the running stack."""
    command = service_command(service)
    service_settings: type[BaseSettings] = import_module(f"services.{service}.settings").Settings
    check_environment(service_settings)
    if SERVERS.isdisjoint(service_settings().model_fields_set):
        os.environ.update(stack_environment(data_dir))
    if workers == 1:
        os.execv(command[0], command)  # noqa: S606
    if service is Service.PROJECTOR:
        raise BadParameter("projectors share no port: start several instead.", param_hint="--workers")
    settings = service_settings()
    assert isinstance(settings, HttpSettings)
    if settings.port == 0:
        raise BadParameter("workers share one port: TALLY_PORT cannot be 0.", param_hint="--workers")
    configure_logs(settings)
    raise Exit(asyncio.run(run_workers(command, environments(settings, workers))))


def stack_environment(data_dir: Path) -> dict[str, str]:
    """Return the settings of the stack that runs on this directory; {} if there is none."""
    try:
        stack = stack_json.read(data_dir)
    except StackError as error:
        raise BadParameter(error.message, param_hint="--data-dir") from None
    return {} if stack is None else service_environment(addresses_in(stack), data_dir)


def environments(settings: HttpSettings, workers: int) -> list[dict[str, str]]:
    """Return each worker's own environment variables: the port of its own metrics."""
    first = settings.operations_port
    return [
        {"TALLY_REUSE_PORT": "true", "TALLY_OPERATIONS_PORT": str(first + number if first else 0)}
        for number in range(workers)
    ]


async def run_workers(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> int:
    """Run `command` once with each of `environments`, added to this process's own, until SIGTERM or SIGINT.

    A worker that ends is started again. The signal is passed on to all; returns the highest exit code once they
    have drained. They end with this process, even by SIGKILL.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    reaper = Reaper()
    try:
        workers = [
            Process(f"worker {at}", command, reaper=reaper, environment=own, grace_s=DRAIN_S)
            for at, own in enumerate(environments, 1)
        ]
        for worker in workers:
            await worker.start()
        watches = [asyncio.create_task(_watch(worker)) for worker in workers]
        await stopping.wait()
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*(worker.stop() for worker in workers))
        return max(abs(worker.exit_code or 0) for worker in workers)
    finally:
        await asyncio.to_thread(reaper.close)


async def _watch(worker: Process) -> None:
    async def start(delay_s: float) -> None:
        logger.error("%s has ended with %d; it starts again in %g s", worker.name, worker.exit_code, delay_s)
        await asyncio.sleep(delay_s)
        await worker.start()

    await keep_running(start, lambda: worker.pid is None)
