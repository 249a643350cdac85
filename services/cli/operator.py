"""The operator as an actor, and actions of operators that no other event records."""

import os
import pwd
import socket
import time
from typing import Any

from typer.core import TyperGroup

from libs.contracts.actors import CURRENT
from libs.contracts.catalogue import OperatorActed, catalogue_codec
from libs.contracts.topics import catalogue_topic
from libs.deployment.deployment import Deployment
from libs.kafka.writer import LogWriter
from libs.tally.events import Actor

PARTITION = 0
"""Of the catalogue: an action belongs to no account."""


class AuditedGroup(TyperGroup):
    """Makes the operator the current actor, with the name of the command that is about to run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        CURRENT.set(operator(" ".join(["tally", *ctx.command_path.split()[1:], found[0] or ""])))
        return found


def operator(command: str) -> Actor:
    """The operating system's user: as far as one can trust that machine."""
    return Actor("command", command, f"{_user()}@{socket.gethostname()}")


async def record_action(stack: Deployment, action: str, **arguments: object) -> None:
    """Record what an operator is about to do. Whoever cannot record it does not do it: raises `LogUnavailable`.

    Arguments that are None are left out.
    """
    given = {name: str(value) for name, value in arguments.items() if value is not None}
    event = OperatorActed(action=action, arguments=given, at=time.time_ns() // 1000, actor=CURRENT.get())
    log = LogWriter(stack.kafka_settings)
    await log.start()
    try:
        await log.append(catalogue_topic(stack.namespace).name, PARTITION, catalogue_codec.encode(event))
    finally:
        await log.stop()


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
