"""`tally purchases reconcile`: compares purchases with paid votes."""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from libs.audit.purchase_logs import VoteOrphan
from libs.audit.purchase_reconciliation import PurchaseOrphan, Reconciliation, reconcile_logs
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import command
from services.cli.contest_lookup import named, titles_by_key
from services.cli.render import Block, plural

MOST_SHOWN = 30

Titles = Callable[[str], str]
"""Returns a record's title and key."""


def _text(found: Reconciliation) -> Iterator[Block]:
    def titles(key: str) -> str:
        return named(key, found.titles.get(key, ""))

    yield f"{plural(found.purchases, 'purchase')} and {plural(found.votes, 'counted paid vote')}."
    for number, what in (
        (found.quarantined, "records of the purchases log cannot be read"),
        (found.waiting, "purchases are still in progress"),
        (found.voided, "have votes that an operator voided"),
        (found.held, "refunded after their contest's close: their votes count until it is reopened"),
        (found.erased, "cannot be attributed to votes: the secrets of their contests were destroyed"),
    ):
        if number:
            yield f"{number:,} {what}."
    for name, orphans in (
        ("bought, but not counted", [_purchase(one, titles) for one in found.uncast]),
        ("counted, but not bought", [_vote(one, titles) for one in found.unpaid]),
        ("refunded or refused, but counted", [_purchase(one, titles) for one in found.not_taken_back]),
    ):
        for orphan in orphans[:MOST_SHOWN]:
            yield f"{name}: {orphan}"
        if len(orphans) > MOST_SHOWN:
            yield f"{name}: {len(orphans) - MOST_SHOWN:,} more (all with --json)."
    yield "Purchases and votes match." if found.fits else "Purchases and votes do not match."


@command(text=_text, is_fine=lambda found: found.fits)
async def reconcile(
    deployment: Deployment,
    waiting_s: Annotated[
        float, typer.Option("--waiting-s", min=0, help="Age below which a purchase may still be in progress.")
    ] = 30,
) -> Reconciliation:
    """Compare the purchases of all accounts with paid votes, both read from the log.

    Reports purchases without counted votes, paid votes without a purchase, and votes that count although their
    purchase was refunded or refused.
    """
    found = await reconcile_logs(deployment, waiting_s)
    bought = [*found.uncast, *found.not_taken_back]
    contests = [*(one.contest for one in bought), *(one.contest for one in found.unpaid)]
    found.titles = await titles_by_key(deployment, contests)
    return found


def _purchase(orphan: PurchaseOrphan, titles: Titles) -> str:
    return (
        f"purchase {orphan.key} of account {orphan.account}, {orphan.status}: contest {titles(orphan.contest)}, "
        f"participant {titles(orphan.participant)}, {plural(orphan.count, 'vote')}"
    )


def _vote(orphan: VoteOrphan, titles: Titles) -> str:
    votes = ", ".join(f"{count} for {titles(participant)}" for participant, count in orphan.choices)
    return f"vote {orphan.vote_id} of voter {orphan.voter} in contest {titles(orphan.contest)}: {votes}"
