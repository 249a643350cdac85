"""`tally purchases`: imports purchases from files, lists refunds, and reconciles purchases with votes."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from typer import Argument, BadParameter, Option

from libs.audit.purchase_reconciliation import PurchaseOrphan, Reconciliation, VoteOrphan, reconcile_logs
from libs.catalogue.api_keys import list_keys
from libs.concurrency.tasks import retried
from libs.contracts.validation import Problem, ValidationFailed
from libs.deployment.deployment import Deployment
from libs.purchases.encryption import AccountCiphers
from libs.purchases.schemas import PurchaseForm, PurchaseShown, parse_purchase, show_all
from libs.purchases.service import PackageBounds, PurchaseService, PurchaseSettings, Recorded
from libs.storage.secrets import account_secret
from libs.tally.errors import IdempotencyKeyReused
from libs.views.purchases.purchase_views import Listed
from libs.web.door.request_parsing import parse_object
from libs.web.errors import MalformedJson
from services.cli.command_decorator import Execute, command, command_group, named, titles_by_key
from services.cli.operator_actions import record_action
from services.cli.output import Block, ExitCode, Result, Rows, plural

Account = Annotated[
    str | None,
    Option("--account", help="Owner of the purchases; default: the running stack's development account."),
]


async def purchase_service(deployment: Deployment) -> PurchaseService:
    """Return the service. Raises as `Deployment.log`."""
    ciphers = AccountCiphers(partial(account_secret, deployment.store))
    bounds = PackageBounds(deployment.catalogue.views, PurchaseSettings().purchase_package_check == "refuse")
    return PurchaseService(
        deployment.purchases, await deployment.log(), deployment.purchase_views, ciphers, bounds
    )


async def find_account(deployment: Deployment, given: str | None) -> str:
    """Return the given or default account. Raises `BadParameter` if there is no such account."""
    account: str | None = given or deployment.description.get("account")
    if account is None:
        raise BadParameter("No running stack provides a default account.", param_hint="--account")
    if account not in {key.account for key in await list_keys(deployment.catalogue.views)}:
        unknown = f"Account {account} not found: it never had an API key."
        raise BadParameter(unknown, param_hint="--account")
    return account


AT_ONCE: Final = 200
ATTEMPTS: Final = 5
"""Attempts per purchase while a server is unavailable; then the import ends, and can be run again."""
MOST_NAMED: Final = 1_000
MOST_SHOWN: Final = 30
PAGE: Final = 200

app = command_group("Purchases and the votes bought with them.")


class Line(NamedTuple):
    """A line of the file: its number from 1, its size in bytes, and its purchase or its errors."""

    number: int
    size: int
    content: PurchaseForm | ValidationFailed

    @property
    def purchase(self) -> str | int:
        """Identifies the purchase, or the invalid line; later lines of a purchase are its later states."""
        return self.number if isinstance(self.content, ValidationFailed) else self.content.purchase_token


@dataclass(slots=True)
class ImportedPurchases:
    """Outcomes of the lines; `bad` lists the first thousand of `bad_count`, with the errors as in the API."""

    executed: bool
    good: int = 0
    recorded: int = 0
    replayed: int = 0
    bad_count: int = 0
    bad: list[dict[str, Any]] = field(default_factory=list)


@command(app, "import")
async def import_purchases(
    deployment: Deployment,
    file: Annotated[Path, Argument(exists=True, dir_okay=False, readable=True, help="NDJSON file.")],
    account: Account = None,
    execute: Execute = False,
) -> Result:
    """Record the purchases in a file, one JSON object per line as for POST /operations/purchases.

    Valid lines are recorded, invalid ones listed. It may be run again: no purchase is recorded twice. Later lines
    of the same purchase are later states of its subscription, unless their reported_at says otherwise; without one
    they are recorded again, in the same order.
    """
    result, record = ImportedPurchases(execute), None
    if execute:
        owner = await find_account(deployment, account)
        await record_action(deployment, "purchases imported", account=owner, file=file.name)
        record = partial(_record, await purchase_service(deployment), owner)
    deployment.progress.begin("Recording" if execute else "Checking", file.stat().st_size)

    async def take(lines: Iterable[Line]) -> None:
        for line in lines:
            try:
                if isinstance(line.content, ValidationFailed):
                    raise line.content
                recorded = await record(line.content) if record else None
            except ValidationFailed as error:
                result.bad_count += 1
                if len(result.bad) < MOST_NAMED:
                    result.bad.append({"line": line.number, "errors": error.data["errors"]})
            else:
                result.good += 1
                result.recorded += recorded is not None and not recorded.replayed
                result.replayed += recorded is not None and recorded.replayed
            deployment.progress.advance(line.size)

    lines = _lines(file)
    while batch := list(islice(lines, AT_ONCE)):
        purchases: dict[str | int, list[Line]] = {}
        for line in batch:
            purchases.setdefault(line.purchase, []).append(line)
        await asyncio.gather(*map(take, purchases.values()))
    result.bad.sort(key=lambda bad: bad["line"])
    return Result(result, _import_text(result), ExitCode.fine_if(not result.bad_count))


def _lines(file: Path) -> Iterator[Line]:
    """Yield the file's lines, except for blank ones."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield Line(number, len(line), _parse(line))


def _parse(line: bytes) -> PurchaseForm | ValidationFailed:
    try:
        return parse_purchase(parse_object(line))
    except MalformedJson:
        return ValidationFailed([Problem("", "is not JSON")])
    except ValidationFailed as error:
        return error


async def _record(service: PurchaseService, account: str, form: PurchaseForm) -> Recorded:
    """Record a purchase. Raises as `PurchaseService.record` while a server stays unavailable."""
    try:
        return await retried(partial(service.record, account, form), ATTEMPTS)
    except IdempotencyKeyReused as error:
        raise ValidationFailed([Problem("/purchase_token", error.message)]) from error


def _import_text(result: ImportedPurchases) -> Iterator[Block]:
    for bad in result.bad[:MOST_SHOWN]:
        errors = (f"{error['pointer']}: {error['message']}".removeprefix(": ") for error in bad["errors"])
        yield f"line {bad['line']}: {'; '.join(errors)}"
    if result.bad_count > MOST_SHOWN:
        yield f"... and {result.bad_count - MOST_SHOWN:,} more invalid lines (the first thousand with --json)."
    if result.executed:
        yield f"Recorded {result.recorded:,} purchases or states; {result.replayed:,} were recorded before."
    else:
        yield f"{result.good:,} purchases can be recorded: run again with --execute."
    if result.bad_count:
        yield f"{result.bad_count:,} lines are invalid."


@command(app)
async def refunds(
    deployment: Deployment,
    account: Account = None,
    tokens: Annotated[bool, Option("--tokens", help="Show the full purchase tokens.")] = False,
) -> Result:
    """List the purchases to be refunded, with the reasons, newest first, until each is refunded.

    The exit code is 1 if one of them cannot be read: its key and the reason are shown.
    """
    owner = await find_account(deployment, account)
    cipher = await (await purchase_service(deployment)).ciphers.of(owner)
    listed: list[Listed] = []
    while page := await deployment.purchase_views.refused(owner, listed[-1].place if listed else None, PAGE):
        listed += page
    shown, unreadable = show_all((one.purchase for one in listed), cipher, whole_token=tokens)
    contests = (purchase.vote.contest_key for purchase in shown if purchase.vote is not None)
    titles = await titles_by_key(deployment, contests)
    return Result(
        {"refunds": shown, "unreadable": unreadable, "titles": titles},
        [
            Rows([_row(purchase, titles) for purchase in shown]),
            f"{plural(len(shown), 'purchase')} to refund.",
            *(f"{purchase.key} cannot be read: {purchase.reason}" for purchase in unreadable),
        ],
        ExitCode.fine_if(not unreadable),
    )


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


@command(app)
async def reconcile(
    deployment: Deployment,
    waiting_s: Annotated[float, Option(min=0, help="Age below which a purchase may still be in progress.")] = 30,
) -> Result:
    """Compare the purchases of all accounts with paid votes, both read from the log.

    Reports purchases without counted votes, paid votes without a purchase, and votes that count although their
    purchase was refunded or refused.
    """
    found = await reconcile_logs(deployment, waiting_s)
    contests = {orphan.contest for orphan in (*found.uncast, *found.not_taken_back)}
    contests |= {orphan.contest for orphan in found.unpaid}
    found.titles = await titles_by_key(deployment, contests)
    return Result(found, _reconciliation_text(found), ExitCode.fine_if(found.fits))


Titles = Callable[[str], str]
"""Returns a record's title and key."""


def _reconciliation_text(found: Reconciliation) -> Iterator[Block]:
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


def _purchase(orphan: PurchaseOrphan, titles: Titles) -> str:
    return (
        f"purchase {orphan.key} of account {orphan.account}, {orphan.status}: contest {titles(orphan.contest)}, "
        f"participant {titles(orphan.participant)}, {plural(orphan.count, 'vote')}"
    )


def _vote(orphan: VoteOrphan, titles: Titles) -> str:
    votes = ", ".join(f"{count} for {titles(participant)}" for participant, count in orphan.choices)
    return f"vote {orphan.vote_id} of voter {orphan.voter} in contest {titles(orphan.contest)}: {votes}"
