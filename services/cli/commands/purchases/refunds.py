"""`tally purchases refunds`: lists purchases whose votes could not be cast."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.deployment.deployment import Deployment
from libs.purchases.responses import PurchaseShown, show_all
from libs.views.purchase_views import Listed, Unreadable
from services.cli.command_decorator import command
from services.cli.commands.purchases.context import Account, find_account, purchase_service
from services.cli.contest_lookup import titles_by_key
from services.cli.render import Block, Rows, plural

PAGE = 200


@dataclass(frozen=True, slots=True)
class Refunds:
    """Purchases to be refunded, and those on the list that cannot be read."""

    refunds: list[PurchaseShown]
    unreadable: list[Unreadable]
    titles: dict[str, str]


def _text(result: Refunds) -> Iterator[Block]:
    yield Rows([_row(one, result.titles) for one in result.refunds])
    yield f"{plural(len(result.refunds), 'purchase')} to refund."
    for one in result.unreadable:
        yield f"{one.key} cannot be read: {one.reason}"


@command(text=_text, is_fine=lambda result: not result.unreadable)
async def refunds(
    deployment: Deployment,
    account: Account = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the full purchase tokens.")] = False,
) -> Refunds:
    """List the purchases to be refunded, with the reasons, newest first, until each is refunded.

    The exit code is 1 if one of them cannot be read: its key and the reason are shown.
    """
    owner = await find_account(deployment, account)
    cipher = await (await purchase_service(deployment)).ciphers.of(owner)
    listed: list[Listed] = []
    while page := await deployment.purchase_views.refused(owner, listed[-1].place if listed else None, PAGE):
        listed += page
    shown, unreadable = show_all((one.purchase for one in listed), cipher, whole_token=tokens)
    contests = (one.vote.contest_key for one in shown if one.vote is not None)
    return Refunds(shown, unreadable, await titles_by_key(deployment, contests))


def _row(one: PurchaseShown, titles: Mapping[str, str]) -> dict[str, object]:
    key = "" if one.vote is None else one.vote.contest_key
    return {
        "refused": one.updated,
        "purchase": one.key,
        "token": one.purchase_token,
        "platform": one.purchase_platform or "-",
        "price": "-" if one.price is None else f"{one.price}",
        "contest": key,
        "title": titles.get(key, ""),
        "votes": "" if one.vote is None else one.vote.count,
        "reason": "" if one.refusal is None else f"{one.refusal.code}: {one.refusal.reason}",
    }
