"""`tally purchases refunds`: lists purchases whose votes could not be cast."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from libs.purchases.responses import PurchaseShown, show_all
from libs.purchases.service import PurchaseService
from libs.views.purchases import Listed, Unreadable
from services.cli.commands.purchases.context import Account, find_account, open_purchase_service
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

PAGE = 500


def refunds(
    account: Account = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the full purchase tokens.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """List the purchases to be refunded, with the reasons, newest first, until each is refunded.

    The exit code is 1 if one of them cannot be read: its key and the reason are shown.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        owner = await find_account(stack, account)
        async with open_purchase_service(stack) as service:
            found, unreadable = await read_refunds(service, owner, whole_token=tokens)
        if as_json:
            refunds = [one.model_dump(mode="json") for one in found]
            others = [{"key": one.key, "reason": one.reason} for one in unreadable]
            print_json({"refunds": refunds, "unreadable": others})
        else:
            print_refunds(found)
            print_unreadable(unreadable)
        return ExitCode.PROBLEM if unreadable else ExitCode.FINE

    run(work())


async def read_refunds(
    service: PurchaseService, account: str, *, whole_token: bool
) -> tuple[list[PurchaseShown], list[Unreadable]]:
    """Return the readable and the unreadable purchases of the list."""
    cipher = await service.ciphers.of(account)
    listed: list[Listed] = []
    while page := await service.views.refused(account, listed[-1].place if listed else None, PAGE):
        listed += page
    return show_all((one.purchase for one in listed), cipher, whole_token=whole_token)


def print_refunds(found: list[PurchaseShown]) -> None:
    """Print a table on a terminal, otherwise one line per purchase."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table("refused", "purchase", "token", "platform", "price", "contest", "votes", "reason", box=None)
    for one in found:
        reason = "" if one.refusal is None else f"{one.refusal.code}: {one.refusal.reason}"
        contest, votes = ("", "") if one.vote is None else (one.vote.contest_key, f"{one.vote.count}")
        platform, price = one.purchase_platform or "-", "-" if one.price is None else f"{one.price}"
        cells = one.updated, one.key, one.purchase_token, platform, price, contest, votes, reason
        if console.is_terminal:
            table.add_row(*cells)
        else:
            console.out("  ".join(cells))
    if console.is_terminal and found:
        console.print(table, soft_wrap=False)
    console.print(f"{len(found):,} purchases are to be refunded.")


def print_unreadable(unreadable: list[Unreadable]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for one in unreadable:
        console.out(f"{one.key} cannot be read: {one.reason}")
