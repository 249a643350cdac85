"""`tally serve`: runs one service in the foreground, as one process or several that share its port."""

import asyncio
import os
from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer
from pydantic_settings import BaseSettings

from libs.local_stack.service_process import service_command
from libs.telemetry.logs import configure_logs
from libs.web.settings import HttpSettings
from services.cli.exit_codes import check_environment
from services.cli.workers import run_workers


class Service(StrEnum):
    """Services that can run as processes of their own."""

    GATEWAY = "gateway"
    INGESTION = "ingestion"
    QUERY = "query"
    CATALOGUE = "catalogue"
    DASHBOARD = "dashboard"
    PROJECTOR = "projector"


def serve(
    service: Annotated[Service, typer.Argument(help="The service; its settings come from the environment.")],
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes that share the port. Worker n (from 0) has its metrics on TALLY_OPERATIONS_PORT + n.",
        ),
    ] = 1,
) -> None:
    """Run one service in the foreground, with the servers given in the settings."""
    command = service_command(service)
    service_settings: type[BaseSettings] = import_module(f"services.{service}.settings").Settings
    check_environment(service_settings)
    if workers == 1:
        os.execv(command[0], command)  # noqa: S606
    if service is Service.PROJECTOR:
        raise typer.BadParameter("projectors share no port: start several instead.", param_hint="--workers")
    settings = service_settings()
    assert isinstance(settings, HttpSettings)
    if settings.port == 0:
        raise typer.BadParameter("workers share one port: TALLY_PORT cannot be 0.", param_hint="--workers")
    configure_logs(settings)
    raise typer.Exit(asyncio.run(run_workers(command, environments(settings, workers))))


def environments(settings: HttpSettings, workers: int) -> list[dict[str, str]]:
    """Return each worker's own environment variables: the port of its own metrics."""
    first = settings.operations_port
    return [
        {"TALLY_REUSE_PORT": "true", "TALLY_OPERATIONS_PORT": str(first + number if first else 0)}
        for number in range(workers)
    ]
