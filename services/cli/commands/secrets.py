"""`tally secrets`: lists, rotates and retires the secrets that sign sessions, receipts and upload addresses."""

import time
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from libs.deployment.deployment import check_deployment_of
from libs.storage.secret_rings import AHEAD_S, FRESH_S, RingSecret, read_ring, retired, rotate
from libs.storage.store import open_store
from libs.tally.time import timestamp
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


class Purpose(StrEnum):
    SESSIONS = "sessions"
    RECEIPTS = "receipts"
    UPLOADS = "uploads"


PURPOSES: Final = {Purpose.UPLOADS: "upload addresses"}
"""Names in the object store, if different."""

Name = Annotated[Purpose, typer.Argument(help="Purpose of the secrets.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]
app = typer.Typer(no_args_is_help=True, help="Secrets that sign sessions, receipts and upload addresses.")


@app.command("list")
def list_secrets(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """List the secrets' states and start times, never the secrets themselves."""

    async def work() -> ExitCode:
        store = open_store(find_deployment(data_dir).storage_url)
        rows = [row for purpose in Purpose for row in _rows(purpose, await read_ring(store, _stored(purpose)))]
        if as_json:
            print_json({"secrets": rows})
        for row in rows if not as_json else ():
            typer.echo(f"{row['purpose']}  {row['state']}  since {row['since'] or 'the beginning'}")
        return ExitCode.FINE

    run(work())


@app.command("rotate")
def rotate_secret(
    purpose: Name, execute: Execute = False, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """Create a new secret, which signs from a minute later; earlier signatures stay valid.

    Existing receipts do not change: each uses the secret in force when its vote was accepted.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        await check_deployment_of(stack)
        made = None
        if execute:
            await record_action(stack, "secret rotated", purpose=purpose)
            made = await rotate(open_store(stack.storage_url), _stored(purpose), _now())
        since = None if made is None else timestamp(made.since)
        if as_json:
            print_json({"purpose": purpose, "since": since, "executed": execute})
        elif made is None:
            typer.echo(f"Run again with --execute: a new secret signs {purpose} {AHEAD_S} s later.")
        else:
            typer.echo(f"A new secret signs {purpose} from {since}.")
        return ExitCode.FINE

    run(work())


@app.command()
def retire(purpose: Name, execute: Execute = False, data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Delete all secrets but the newest, ending all they signed. Secrets of receipts cannot be retired."""

    async def work() -> ExitCode:
        if purpose is Purpose.RECEIPTS:
            raise typer.BadParameter(
                "Receipts are valid for ever, so their secrets are kept.", param_hint="PURPOSE"
            )
        stack = find_deployment(data_dir)
        await check_deployment_of(stack)
        store = open_store(stack.storage_url)
        former = retired(await read_ring(store, _stored(purpose)), _now())
        if execute and former:
            await record_action(stack, "secrets retired", purpose=purpose, secrets=len(former))
            for each in former:
                await store.delete(each.name)
        if as_json:
            print_json({"purpose": purpose, "retired": len(former), "executed": execute})
        elif not former:
            typer.echo(f"There is only one secret of {purpose}.")
        elif execute:
            typer.echo(f"Retired {len(former)}: what they signed ends within {FRESH_S:.0f} s.")
        else:
            typer.echo(f"Run again with --execute to end all {purpose} that {len(former)} former secrets signed.")
        return ExitCode.FINE

    run(work())


def _stored(purpose: Purpose) -> str:
    return PURPOSES.get(purpose, purpose)


def _rows(purpose: Purpose, ring: list[RingSecret]) -> list[dict[str, Any]]:
    signing = max((each for each in ring if each.since <= _now()), default=ring[0])
    return [
        {
            "purpose": purpose,
            "since": timestamp(each.since) if each.since else None,
            "state": "signs" if each is signing else "waits" if each.since > signing.since else "verifies",
        }
        for each in ring
    ]


def _now() -> int:
    return time.time_ns() // 1000
