"""`tally secrets`: lists, rotates and retires the secrets that sign sessions, receipts and upload addresses, and
those that encrypt positions."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

from libs.deployment.deployment import Deployment
from libs.storage.secret_rings import AHEAD_S, FRESH_S, RingSecret, read_ring, retired, rotate
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import Execute, command, command_group
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows


class Purpose(StrEnum):
    SESSIONS = "sessions"
    RECEIPTS = "receipts"
    UPLOADS = "uploads"
    POSITIONS = "positions"


PURPOSES: Final = {Purpose.UPLOADS: "upload addresses"}
"""Names in the object store, if different."""

Name = Annotated[Purpose, typer.Argument(help="Purpose of the secrets.")]
app = command_group("Secrets that sign sessions, receipts and upload addresses, and that encrypt positions.")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret; it signs, verifies earlier signatures, or waits for `since` to sign."""

    purpose: Purpose
    state: str
    since: str | None


@dataclass(frozen=True, slots=True)
class SecretsTable:
    secrets: list[Secret]


@dataclass(frozen=True, slots=True)
class Rotated:
    """A new secret signs from `since` on; None before the execution."""

    purpose: Purpose
    since: str | None
    executed: bool


@dataclass(frozen=True, slots=True)
class Retired:
    """Number of former secrets to be deleted."""

    purpose: Purpose
    retired: int
    executed: bool


def _listed(result: SecretsTable) -> Iterator[Block]:
    rows = [(one.purpose, one.state, one.since or "the beginning") for one in result.secrets]
    yield Rows([dict(zip(("purpose", "state", "since"), row, strict=True)) for row in rows])


@app.command("list")
@command(text=_listed)
async def list_secrets(deployment: Deployment) -> SecretsTable:
    """List the secrets' states and start times, never the secrets themselves."""
    rings = [(purpose, await read_ring(deployment.store, _stored(purpose))) for purpose in Purpose]
    return SecretsTable([row for purpose, ring in rings for row in _rows(purpose, ring)])


def _rotated(result: Rotated) -> Iterator[Block]:
    if result.executed:
        yield f"A new secret signs {result.purpose} from {result.since}."
    else:
        yield f"Run again with --execute: a new secret signs {result.purpose} {AHEAD_S} s later."


@app.command("rotate")
@command(text=_rotated)
async def rotate_secret(deployment: Deployment, purpose: Name, execute: Execute = False) -> Rotated:
    """Create a new secret, which signs from a minute later; earlier signatures stay valid.

    Existing receipts do not change: each uses the secret in force when its vote was accepted.
    """
    await deployment.check()
    if not execute:
        return Rotated(purpose, None, False)
    await record_action(deployment, "secret rotated", purpose=purpose)
    made = await rotate(deployment.store, _stored(purpose), _now())
    return Rotated(purpose, timestamp(made.since), True)


def _retired(result: Retired) -> Iterator[Block]:
    if not result.retired:
        yield f"There is only one secret of {result.purpose}."
    elif result.executed:
        yield f"Retired {result.retired}: their signatures become invalid within {FRESH_S:.0f} s."
    else:
        number = result.retired
        yield f"Run again with --execute to end all {result.purpose} that {number} former secrets signed."


@app.command()
@command(text=_retired)
async def retire(deployment: Deployment, purpose: Name, execute: Execute = False) -> Retired:
    """Delete all secrets but the newest, ending all they signed. Secrets of receipts cannot be retired."""
    if purpose is Purpose.RECEIPTS:
        raise typer.BadParameter("Receipts are valid for ever, so their secrets are kept.", param_hint="PURPOSE")
    await deployment.check()
    former = retired(await read_ring(deployment.store, _stored(purpose)), _now())
    if execute and former:
        await record_action(deployment, "secrets retired", purpose=purpose, secrets=len(former))
        for each in former:
            await deployment.store.delete(each.name)
    return Retired(purpose, len(former), execute)


def _stored(purpose: Purpose) -> str:
    return PURPOSES.get(purpose, purpose)


def _rows(purpose: Purpose, ring: list[RingSecret]) -> list[Secret]:
    signing = max((each for each in ring if each.since <= _now()), default=ring[0])

    def state(each: RingSecret) -> str:
        return "signs" if each is signing else "waits" if each.since > signing.since else "verifies"

    return [Secret(purpose, state(each), timestamp(each.since) if each.since else None) for each in ring]


def _now() -> int:
    return time.time_ns() // 1000
