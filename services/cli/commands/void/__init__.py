"""`tally void`: removes votes from the count, and restores them."""

from typing import Any

from services.cli.command_decorator import command_group
from services.cli.commands.void.command import list_voids, undo, void
from services.cli.operator_actions import AuditedGroup


class DefaultRunGroup(AuditedGroup):
    """Runs `tally void CONTEST ...` as `tally void run CONTEST ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if named else ["run", *args])


app = command_group("Remove votes from the count, or restore them; `run` may be omitted.", DefaultRunGroup)
app.command("run")(void)
app.command("list")(list_voids)
app.command()(undo)
