"""Records operators' actions, with the operator as the actor."""

import os
import pwd
import socket
import time
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from libs.contracts.log_records import CURRENT
from libs.tally.events import Actor

if TYPE_CHECKING:
    from libs.deployment.deployment import Deployment

PARTITION = 0
"""Catalogue partition for actions, which belong to no account."""


async def record_action(deployment: "Deployment", action: str, **arguments: object) -> None:
    """Record an operator's action before executing it; arguments that are None are omitted.

    Raises `LogUnavailable`: an action that cannot be recorded must not be executed.
    """
    # not imported for the list of commands
    from libs.contracts.catalogue_events import OperatorActed, catalogue_codec  # noqa: PLC0415

    given = {name: str(value) for name, value in arguments.items() if value is not None}
    event = OperatorActed(action=action, arguments=given, at=time.time_ns() // 1000, actor=CURRENT.get())
    log = await deployment.log(check=False)
    await log.append(deployment.catalogue.topic.name, PARTITION, catalogue_codec.encode(event))


class AuditedGroup(TyperGroup):
    """Command group that sets the operator, with the command's name, as the current actor."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        CURRENT.set(operator(" ".join(["tally", *ctx.command_path.split()[1:], found[0] or ""])))
        return found


def operator(command: str) -> Actor:
    """Return the operating system's user as an actor, as trustworthy as the machine."""
    return Actor("command", command, f"{_user()}@{socket.gethostname()}")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
