"""`tally up`: runs the whole service on this machine, in the foreground."""

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from typer import Option

from libs.backup.manifest import read_complete
from libs.local_stack.errors import Exit, StackError
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Preparation, Supervisor
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from services.cli import bootstrap
from services.cli.command_decorator import command
from services.cli.deployment_discovery import DATA_DIR
from services.cli.output import plural
from services.cli.settings_check import check_environment


async def run(
    supervisor: Supervisor,
    report: Report,
    *,
    as_json: bool = False,
    ready: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
) -> int:
    """Run a stack until SIGINT, SIGTERM or SIGHUP, also while it starts; returns the exit code.

    `ready` is called with the description. Messages go to standard error, the addresses to standard output.
    """
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop_requested.set)
    starting = asyncio.create_task(supervisor.start())
    stop_waiter = asyncio.create_task(stop_requested.wait())
    try:
        await asyncio.wait((starting, stop_waiter), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            report.line("Stopping ...")
            starting.cancel()
            await asyncio.wait((starting,))
            return 0
        show(starting.result(), supervisor.data_dir, as_json=as_json)
        if ready is not None:
            await ready(starting.result())
        await stop_requested.wait()
        report.line("Stopping ...")
        await supervisor.stop()
        report.line("Stopped.")
        return 0
    except StackError as error:
        report.line(f"Error: {error.message}")
        return int(error.exit_code)
    except TallyError as error:
        report.line(f"Error: {redacted(str(error))}")
        return int(Exit.SERVER_AWAY)
    finally:
        stop_waiter.cancel()
        await supervisor.stop()


def show(stack: dict[str, Any], data_dir: Path, *, as_json: bool) -> None:
    """Print the addresses that matter, lines to paste into another terminal, and the next steps."""
    console = Console(highlight=False, soft_wrap=True)
    if as_json:
        console.out(json.dumps(stack))
        return
    base = redacted(stack["base_url"])
    console.out("Tallykeeper is ready. Ctrl-C stops it.\n")
    console.out(f"  dashboard   {redacted(stack['dashboard_url'])}   (`tally dashboard` opens it, logged in)")
    console.out(f"  API         {base}")
    console.out(f"  reference   {base}/docs\n")
    console.out("Paste these lines into another terminal:\n")
    console.out(f"export TALLY_URL={base}")
    console.out(f"export TALLY_API_KEY={stack['api_key']}")
    console.out(f"export TALLY_DATA_DIR={shlex.quote(str(data_dir.absolute()))}")
    console.out(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n")
    console.out("Then cast a vote as in README.md, list commands with `tally --help`, or see `tally status`.")
    console.out(f"Logs: {data_dir / 'logs'}. Addresses of Kafka and Valkey: {data_dir / 'stack.json'}.")


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Options of `tally up` and `tally demo`."""

    port: Annotated[int, Option(envvar="TALLY_PORT", min=0, max=65535, help="HTTP port of the gateway.")] = 8080
    data_dir: Annotated[
        Path, Option(envvar="TALLY_DATA_DIR", help="Directory for data and logs, kept between runs.")
    ] = DATA_DIR
    fresh: Annotated[bool, Option("--fresh", help="Delete the data of earlier runs first.")] = False
    no_browser: Annotated[
        bool,
        Option(
            "--no-browser",
            help="Open no browser; by default a terminal session with a display opens one, logged in.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class StackSize:
    """Numbers of processes."""

    brokers: Annotated[
        int | None, Option(envvar="TALLY_BROKERS", min=1, help="Brokers of Kafka: 1, or at least 3.")
    ] = None
    valkey_shards: Annotated[
        int | None,
        Option(envvar="TALLY_VALKEY_SHARDS", min=1, help="Primaries of Valkey: 1, or a cluster of at least 3."),
    ] = None
    valkey_replicas: Annotated[
        int | None, Option(envvar="TALLY_VALKEY_REPLICAS", min=0, help="Replicas of each shard: 0, or at least 2.")
    ] = None
    gateways: Annotated[int, Option(envvar="TALLY_GATEWAYS", min=1, help="Gateways, which share one address.")] = 1
    projectors: Annotated[
        int, Option(envvar="TALLY_PROJECTORS", min=1, help="Projectors, which share the partitions.")
    ] = 1


@command()
async def up(
    options: StackOptions,
    topology: StackSize,
    lan: Annotated[
        bool,
        Option(
            "--lan",
            envvar="TALLY_LAN",
            help="Serve phones on this machine's network, with the limits of a venue; prints a QR code.",
        ),
    ] = False,
    any_port: Annotated[
        bool, Option("--any-port", help="Use any free port if the requested one is in use.")
    ] = False,
    restore: Annotated[
        Path | None,
        Option(
            exists=True,
            file_okay=False,
            help="Directory of a complete export, which a new data directory starts with.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print stack.json's contents as one line when ready.")] = False,
) -> None:
    """Start everything on this machine and stay in the foreground; Ctrl-C stops it cleanly.

    A data directory keeps the numbers of its brokers and of Valkey's servers; by default there is one of each.
    """
    check_environment()
    report, preparation = Report(), cast(Preparation, bootstrap)
    settings = StackSettings(data_dir=options.data_dir, lan=lan, **asdict(topology))
    if restore is not None:
        preparation, exported = bootstrap.Restoration(restore), read_complete(restore)
        report.line(
            f"restoring {plural(exported.records, 'record')} of namespace {exported.namespace} from {restore}, "
            f"exported {exported.began} to {exported.ended}"
        )
        settings = settings.model_copy(update={"partitions": exported.partitions, "namespace": exported.namespace})
    supervisor = Supervisor(
        settings, preparation, port=options.port, any_port=any_port, fresh=options.fresh, report=report, waits=True
    )
    async with AsyncExitStack() as opened:

        async def ready(stack: dict[str, Any]) -> None:
            from services.cli.commands.dashboard import open_dashboard  # noqa: PLC0415 (not before it is ready)
            from services.cli.voting_page.server import serve_voting_page  # noqa: PLC0415

            page = await opened.enter_async_context(serve_voting_page(stack))
            report.line(f"voting page: {page}")
            if lan:
                report.line(f"dashboard on the network: {stack['public_url']}/dashboard")
                report.line(qr_code(page))
            if not options.no_browser and sys.stdout.isatty():
                await open_dashboard(stack)

        raise typer.Exit(await run(supervisor, report, as_json=as_json, ready=ready))


def qr_code(address: str) -> str:
    """Draw an address for a dark terminal."""
    import segno  # noqa: PLC0415 (delays the start)

    drawn = StringIO()
    segno.make(address, micro=False).terminal(drawn, border=2, compact=True)
    return drawn.getvalue()
