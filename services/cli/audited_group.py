"""Command groups that set the operator as the actor of what a command records."""

import os
import pwd
import socket
from typing import Any

from typer.core import TyperGroup

from libs.contracts.actors import CURRENT
from libs.tally.events import Actor


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
