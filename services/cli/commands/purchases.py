"""`tally purchases`: imports purchases from files, lists refunds, and reconciles purchases with votes."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from libs.audit.purchase_reconciliation import PurchaseOrphan, Reconciliation, VoteOrphan, reconcile_logs
from libs.catalogue.api_keys import list_keys
from libs.contracts.validation import Problem, ValidationFailed
from libs.deployment.deployment import Deployment, Progress
from libs.purchases.encryption import AccountCiphers
from libs.purchases.requests import PurchaseForm, parse_purchase
from libs.purchases.responses import PurchaseShown, show_all
from libs.purchases.service import PackageBounds, PurchaseService, PurchaseSettings, Recorded
from libs.storage.secrets import account_secret
from libs.tally.errors import IdempotencyKeyReused, TallyError
from libs.views.purchases.purchase_views import Listed, Unreadable
from libs.web.door.request_parsing import parse_object
from libs.web.errors import MalformedJson
from services.cli.command_decorator import Execute, command, command_group
from services.cli.contest_lookup import named, titles_by_key
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows, plural

Account = Annotated[
    str | None,
    typer.Option("--account", help="Owner of the purchases; default: the running stack's development account."),
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
        raise typer.BadParameter("No running stack provides a default account.", param_hint="--account")
    if account not in {key.account for key in await list_keys(deployment.catalogue.views)}:
        unknown = f"Account {account} not found: it never had an API key."
        raise typer.BadParameter(unknown, param_hint="--account")
    return account


AT_ONCE = 200
ATTEMPTS = 5
"""Attempts per purchase while a server is unavailable; then the import ends, and can be run again."""
MOST_NAMED = 1_000
MOST_SHOWN = 30


class Line(NamedTuple):
    """A line of the file: its number from 1, its size in bytes, and its purchase or its errors."""

    number: int
    size: int
    content: PurchaseForm | ValidationFailed


@dataclass(frozen=True, slots=True)
class BadLine:
    """An invalid line, with its errors as in the API."""

    line: int
    errors: list[dict[str, Any]]


@dataclass(slots=True)
class ImportedPurchases:
    """Outcomes of the lines; `bad` lists the first thousand of `bad_count`."""

    executed: bool
    good: int = 0
    recorded: int = 0
    replayed: int = 0
    bad_count: int = 0
    bad: list[BadLine] = field(default_factory=list)

    def refuse(self, line: int, error: ValidationFailed) -> None:
        self.bad_count += 1
        if len(self.bad) < MOST_NAMED:
            self.bad.append(BadLine(line, error.data["errors"]))


def _import_text(result: ImportedPurchases) -> Iterator[Block]:
    for bad in result.bad[:MOST_SHOWN]:
        what = "; ".join(f"{one['pointer']}: {one['message']}".removeprefix(": ") for one in bad.errors)
        yield f"line {bad.line}: {what}"
    if result.bad_count > MOST_SHOWN:
        yield f"... and {result.bad_count - MOST_SHOWN:,} more invalid lines (the first thousand with --json)."
    if result.executed:
        yield f"Recorded {result.recorded:,} purchases or states; {result.replayed:,} were recorded before."
    else:
        yield f"{result.good:,} purchases can be recorded: run again with --execute."
    if result.bad_count:
        yield f"{result.bad_count:,} lines are invalid."


@command(text=_import_text, is_fine=lambda result: not result.bad_count)
async def import_purchases(
    deployment: Deployment,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="NDJSON file.")],
    account: Account = None,
    execute: Execute = False,
) -> ImportedPurchases:
    """Record the purchases in a file, one JSON object per line as for POST /operations/purchases.

    Valid lines are recorded, invalid ones listed. It may be run again: no purchase is recorded twice. Later lines
    of the same purchase are later states of its subscription, unless their reported_at says otherwise; without one
    they are recorded again, in the same order.
    """
    progress, size = deployment.progress, file.stat().st_size
    if not execute:
        progress.begin("Checking", size)
        return check_all(file, progress)
    owner = await find_account(deployment, account)
    await record_action(deployment, "purchases imported", account=owner, file=file.name)
    service = await purchase_service(deployment)
    progress.begin("Recording", size)
    return await record_all(file, service, owner, progress)


def check_all(file: Path, progress: Progress) -> ImportedPurchases:
    result = ImportedPurchases(executed=False)
    for line in read(file):
        if isinstance(line.content, ValidationFailed):
            result.refuse(line.number, line.content)
        else:
            result.good += 1
        progress.advance(line.size)
    return result


async def record_all(file: Path, service: PurchaseService, account: str, progress: Progress) -> ImportedPurchases:
    """Record all valid lines. Raises as `PurchaseService.record` while a server stays unavailable."""
    result = ImportedPurchases(executed=True)

    async def take(line: Line) -> None:
        try:
            if isinstance(line.content, ValidationFailed):
                raise line.content
            recorded = await _record(service, account, line.content)
        except ValidationFailed as error:
            result.refuse(line.number, error)
        else:
            result.good += 1
            result.recorded += not recorded.replayed
            result.replayed += recorded.replayed
        progress.advance(line.size)

    async def take_in_order(lines: list[Line]) -> None:
        for line in lines:
            await take(line)

    lines = read(file)
    while batch := list(islice(lines, AT_ONCE)):
        await asyncio.gather(*map(take_in_order, _by_purchase(batch)))
    result.bad.sort(key=lambda bad: bad.line)
    return result


def _by_purchase(batch: list[Line]) -> list[list[Line]]:
    """Group the lines by purchase: the states of one are recorded in their order."""
    groups: dict[str | int, list[Line]] = {}
    for line in batch:
        name = line.number if isinstance(line.content, ValidationFailed) else line.content.purchase_token
        groups.setdefault(name, []).append(line)
    return list(groups.values())


def read(file: Path) -> Iterator[Line]:
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
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await service.record(account, form)
        except IdempotencyKeyReused as error:
            raise ValidationFailed([Problem("/purchase_token", error.message)]) from error
        except TallyError as error:
            if error.retry_after_s is None or attempt == ATTEMPTS:
                raise
            await asyncio.sleep(error.retry_after_s)
    raise AssertionError("the last attempt returns or raises")


PAGE = 200


@dataclass(frozen=True, slots=True)
class Refunds:
    """Purchases to be refunded, and those on the list that cannot be read."""

    refunds: list[PurchaseShown]
    unreadable: list[Unreadable]
    titles: dict[str, str]


def _refunds_text(result: Refunds) -> Iterator[Block]:
    yield Rows([_row(one, result.titles) for one in result.refunds])
    yield f"{plural(len(result.refunds), 'purchase')} to refund."
    for one in result.unreadable:
        yield f"{one.key} cannot be read: {one.reason}"


@command(text=_refunds_text, is_fine=lambda result: not result.unreadable)
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


@command(text=_reconciliation_text, is_fine=lambda found: found.fits)
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


app = command_group("Purchases and the votes bought with them.")
app.command("import")(import_purchases)
app.command()(refunds)
app.command()(reconcile)
