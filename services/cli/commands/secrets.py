"""`tally secrets`: lists, rotates and retires the secrets that sign sessions, receipts, upload addresses and
links of screens, and those that encrypt positions."""

import asyncio
import time
from enum import StrEnum
from typing import Annotated, Final

from typer import Argument, BadParameter

from libs.deployment.deployment import Deployment
from libs.storage.secret_rings import AHEAD_S, FRESH_S, RingSecret, read_ring, retired, rotate
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import Execute, command, command_group
from services.cli.operator_actions import record_action
from services.cli.output import Result, Rows


class Purpose(StrEnum):
    SESSIONS = "sessions"
    RECEIPTS = "receipts"
    UPLOADS = "uploads"
    POSITIONS = "positions"
    LINKS = "links"


PURPOSES: Final = {Purpose.UPLOADS: "upload addresses"}
"""Names in the object store, if different."""

Name = Annotated[Purpose, Argument(help="Purpose of the secrets.")]
app = command_group("Secrets that sign sessions, receipts, uploads and links, and that encrypt positions.")


@command(app, "list")
async def list_secrets(deployment: Deployment) -> Result:
    """List the secrets' states and start times, never the secrets themselves."""
    rows = [
        {"purpose": purpose, "state": state, "since": timestamp(secret.since) if secret.since else None}
        for purpose in Purpose
        for secret, state in _states(await read_ring(deployment.store, _stored(purpose)))
    ]
    return Result({"secrets": rows}, [Rows([row | {"since": row["since"] or "the beginning"} for row in rows])])


@command(app, "rotate")
async def rotate_secret(deployment: Deployment, purpose: Name, execute: Execute = False) -> Result:
    """Create a new secret, which signs from a minute later; earlier signatures stay valid.

    Existing receipts do not change: each uses the secret in force when its vote was accepted.
    """
    await deployment.check()
    since, to = None, f"create a secret, which signs {purpose} {AHEAD_S} s later"
    if execute:
        await record_action(deployment, "secret rotated", purpose=purpose)
        made = await rotate(deployment.store, _stored(purpose), await _latest(deployment, purpose))
        since = timestamp(made.since)
    done = f"A new secret signs {purpose} from {since}."
    return Result.change({"purpose": purpose, "since": since}, [], execute, done, to)


@command(app)
async def retire(deployment: Deployment, purpose: Name, execute: Execute = False) -> Result:
    """Delete all secrets but the newest, ending all they signed. Secrets of receipts cannot be retired."""
    if purpose is Purpose.RECEIPTS:
        raise BadParameter("Receipts are valid for ever, so their secrets are kept.", param_hint="PURPOSE")
    await deployment.check()
    former = retired(await read_ring(deployment.store, _stored(purpose)), _now())
    number = len(former)
    if former and execute:
        await record_action(deployment, "secrets retired", purpose=purpose, secrets=number)
        for secret in former:
            await deployment.store.delete(secret.name)
    done = f"Retired {number}: their signatures become invalid within {FRESH_S:.0f} s."
    to = f"end all {purpose} that {number} former secrets signed"
    nothing = "" if former else f"There is only one secret of {purpose}."
    return Result.change({"purpose": purpose, "retired": number}, [], execute, done, to, nothing)


def _stored(purpose: Purpose) -> str:
    return PURPOSES.get(purpose, purpose)


def _states(ring: list[RingSecret]) -> list[tuple[RingSecret, str]]:
    """Return each secret with its state: it signs, verifies earlier signatures, or waits for its start."""
    signing = max((secret for secret in ring if secret.since <= _now()), default=ring[0])
    states = ("signs" if one is signing else "waits" if one.since > signing.since else "verifies" for one in ring)
    return list(zip(ring, states, strict=True))


async def _latest(deployment: Deployment, purpose: Purpose) -> int:
    """Return the time now; of receipts the last with which a vote was stamped, if Valkey's clock is ahead.

    A receipt is signed by the secret of its vote's time, which must not change afterwards.
    """
    if purpose is not Purpose.RECEIPTS:
        return _now()
    states = await asyncio.gather(*map(deployment.vote_views.state, deployment.votes.numbers))
    return max(_now(), *(state.clock for state in states))


def _now() -> int:
    return time.time_ns() // 1000
