"""`tally purchases reconcile`: compares purchases with paid votes."""

from collections.abc import Iterator
from typing import Annotated

import typer

from libs.audit.purchase_logs import VoteOrphan
from libs.audit.purchase_orphans import PurchaseOrphan, Reconciliation, reconcile_logs
from libs.deployment.deployment import Deployment
from services.cli.render import Block
from services.cli.runner import command

MOST_SHOWN = 30


def _text(found: Reconciliation) -> Iterator[Block]:
    yield f"{found.purchases:,} purchases and {found.votes:,} counted paid votes."
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
        ("bought, but not counted", [_purchase(one) for one in found.uncast]),
        ("counted, but not bought", [_vote(one) for one in found.unpaid]),
        ("refunded or refused, but counted", [_purchase(one) for one in found.not_taken_back]),
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
    return await reconcile_logs(deployment, waiting_s)


def _purchase(orphan: PurchaseOrphan) -> str:
    return (
        f"purchase {orphan.key} of account {orphan.account}, {orphan.status}: contest {orphan.contest} "
        f"participant {orphan.participant} count {orphan.count}"
    )


def _vote(orphan: VoteOrphan) -> str:
    votes = ", ".join(f"{count} for {participant}" for participant, count in orphan.choices)
    return f"vote {orphan.vote_id} of voter {orphan.voter} in contest {orphan.contest}: {votes}"
