"""Records purchases and refunds in the log, and reads them back from the views."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from pydantic import Field

from libs.contracts.catalogue_events import Stored
from libs.contracts.log_records import CURRENT, Appended, Appender
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Topic
from libs.contracts.validation import Problem, ValidationFailed
from libs.purchases.encryption import AccountCiphers
from libs.purchases.schemas import PurchaseForm, PurchaseUnreadable, current, report
from libs.tally.errors import AppendUnknown, IdempotencyKeyReused, NotFound, ViewsUnavailable
from libs.tally.time_conversion import microseconds
from libs.telemetry.environment_settings import EnvironmentSettings
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PurchaseViews, Unreadable

logger = logging.getLogger(__name__)

SHOPS: Final = "shops", "master_shops"


PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class PackageBounds:
    """Compares purchases with the account's packages; unknown packages bound nothing.

    With `refuses` False a purchase of more votes than its package has is logged and recorded.
    """

    records: CatalogueViews
    refuses: bool = True

    async def check(self, account: str, form: PurchaseForm) -> None:
        """Raise `ValidationFailed` if the purchase casts more votes than its package has."""
        if form.vote is None or form.package_key is None:
            return
        bound = await self._vote_count(account, form.shop_key, form.package_key)
        if bound is None or form.vote.count <= bound:
            return
        if self.refuses:
            raise ValidationFailed([Problem("/vote/count", f"package {form.package_key} has {bound} votes")])
        logger.warning(
            "a purchase of account %s casts %d votes of a package of %d", account, form.vote.count, bound
        )

    async def _vote_count(self, account: str, shop_key: str | None, package_key: str) -> int | None:
        async for shop in self._shops(account, shop_key):
            for package in shop.document.get("packages", ()):
                if package["key"] == package_key:
                    count: int | None = package.get("vote_count")
                    return count
        return None

    async def _shops(self, account: str, key: str | None) -> AsyncIterator[Stored]:
        """Yield the named shop, or all of the account."""
        for resource in SHOPS:
            if key is not None:
                shop = await self.records.get(account, resource, key)
                if shop is not None:
                    yield shop
                continue
            after: int | str = ""
            while page := await self.records.page(account, resource, after=after, limit=PAGE):
                for shop in page:
                    yield shop
                after = page[-1].created


FOLD_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.02
AHEAD_US: Final = 300_000_000
"""Accepted difference of a payment platform's clock: five minutes."""
FIXED: Final = "user", "anonymous", "kind", "vote", "package_key", "shop_key", "price", "purchase_platform"
"""Members that no later report of a purchase can change."""


class Recorded(NamedTuple):
    """A recorded purchase; `replayed`: an earlier request had recorded it."""

    purchase: Purchase
    replayed: bool


@dataclass(frozen=True, slots=True)
class PurchaseService:
    """Records the purchases and refunds of all accounts. Writes are idempotent.

    Writes raise `LogUnavailable` if they were not recorded, `ViewsUnavailable` if they were, or may have been,
    recorded and the view does not show them within 5 s, and the errors of an unavailable object store.
    """

    topic: Topic
    log: Appender
    views: PurchaseViews
    ciphers: AccountCiphers
    bounds: PackageBounds

    async def get(self, account: str, key: str) -> Purchase | None:
        """Return the purchase, or None if nothing is recorded. Raises `PurchaseUnreadable`, as all methods do."""
        found = await self.views.get(account, key)
        if isinstance(found, Unreadable):
            report(found)
            raise PurchaseUnreadable(key)
        return found

    async def record(self, account: str, form: PurchaseForm) -> Recorded:
        """Record a purchase, or a later state of its subscription. Repeated and late reports change nothing.

        Raises `IdempotencyKeyReused` if the token was recorded with other content, and `ValidationFailed` for a
        report from the future or more votes than the package has.
        """
        now = _now()
        _check_time(form, now)
        event = replace(form.recorded(account, await self.ciphers.of(account), now), actor=CURRENT.get())
        known = await self.get(account, event.key)
        is_new = known is None or known.recorded is None
        if known is not None and known.recorded is not None:
            _require_same(known.recorded, event)
        else:
            await self.bounds.check(account, form)
        changed = bool(form.refunded) and (known is None or known.status is not PurchaseStatus.REFUNDED)
        if changed:
            # before the purchase, so that a crash in between cannot leave the votes of a refunded one cast
            known = await self._refund(account, event.key)
        if is_new:
            landed = await self._append(event)
            known = await self._folded(account, event.key, lambda purchase: purchase.recorded is not None)
            changed = changed or landed is None or not landed.exact or landed.offset == known.offset
        assert known is not None
        assert known.recorded is not None
        _require_same(known.recorded, event)
        later = await self._update(known, form)
        return Recorded(later or known, replayed=not changed and later is None)

    async def _update(self, known: Purchase, form: PurchaseForm) -> Purchase | None:
        """Append the reported state if it is later than the known one, and return the purchase with it."""
        assert known.recorded is not None
        if not form.states_subscription:
            return None
        now = _now()
        event = replace(form.updated(known.account, known.key, now), actor=CURRENT.get())
        state, at = form.state_after(known.subscription), event.reported_at
        repeats = state in (known.subscription, current(known.subscription, now))
        if at is None:
            if repeats or state == known.recorded.subscription:
                return None
        elif at <= known.reported_at:
            if at == known.reported_at and not repeats:
                other = "Another state of this purchase was reported with the same reported_at."
                raise IdempotencyKeyReused(other, key=known.key)
            return None
        landed = await self._append(event)

        def shows(purchase: Purchase) -> bool:
            if at is not None:
                return purchase.reported_at >= at
            return (landed is not None and landed.exact) or purchase.subscription == state

        past = landed.offset if landed is not None and landed.exact else None
        return await self._folded(known.account, known.key, shows, past)

    async def refund(self, account: str, key: str) -> Purchase:
        """Record the refund of purchase `key`. Raises `NotFound` if nothing is recorded under it."""
        known = await self.get(account, key)
        if known is None:
            raise NotFound(f"Purchase {key} not found.")
        return known if known.status is PurchaseStatus.REFUNDED else await self._refund(account, key)

    async def refund_token(self, account: str, purchase_token: str) -> Purchase:
        """Record a refund, also before its purchase: then the votes are never cast, and `recorded` is None."""
        key = (await self.ciphers.of(account)).key(purchase_token)
        known = await self.get(account, key)
        refunded = known is not None and known.status is PurchaseStatus.REFUNDED
        return known if known is not None and refunded else await self._refund(account, key)

    async def _refund(self, account: str, key: str) -> Purchase:
        await self._append(PurchaseRefunded(account=account, key=key, at=_now(), actor=CURRENT.get()))
        return await self._folded(account, key, lambda purchase: purchase.status is PurchaseStatus.REFUNDED)

    async def _append(self, event: PurchaseEvent) -> Appended | None:
        """Append the event. Return its position, or None if it is unknown whether the log has the record."""
        partition = self.topic.partition_of(event.key)
        try:
            return await self.log.append(
                self.topic.name, partition, purchases_codec.encode(event), event.key.encode()
            )
        except AppendUnknown:
            return None

    async def _folded(
        self, account: str, key: str, shows: Callable[[Purchase], bool], past: int | None = None
    ) -> Purchase:
        """Wait until the record at offset `past` is folded and `shows` is true; return the purchase."""
        try:
            async with asyncio.timeout(FOLD_DEADLINE_S):
                while True:
                    if past is None or await self._is_past(key, past):
                        purchase = await self.get(account, key)
                        if purchase is not None and shows(purchase):
                            return purchase
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ViewsUnavailable(
                "The request is, or may be, recorded, but cannot be read yet. Send it again: it is applied once.",
                retry_after_s=1,
            ) from None

    async def _is_past(self, key: str, offset: int) -> bool:
        position = await self.views.position(self.topic.partition_of(key))
        return position is not None and position.offset > offset


def _require_same(recorded: PurchaseRecorded, event: PurchaseRecorded) -> None:
    """Raise `IdempotencyKeyReused` if the two differ in more than the state of the subscription."""
    if any(getattr(recorded, name) != getattr(event, name) for name in FIXED):
        raise IdempotencyKeyReused("This purchase_token was recorded with other content.", key=event.key)


def _check_time(form: PurchaseForm, now: int) -> None:
    """Raise `ValidationFailed` for a report from the future: it would outrank all states until then."""
    if form.reported_at is None:
        return
    at = microseconds(form.reported_at)
    if at < 0 or at > now + AHEAD_US:
        raise ValidationFailed([Problem("/reported_at", "must be between 1970 and now")])


def _now() -> int:
    return time.time_ns() // 1000


class PurchaseSettings(EnvironmentSettings):
    purchase_package_check: Literal["refuse", "report"] = Field(
        "refuse",
        description="Treatment of a purchase of more votes than its package has: `refuse` answers 422, `report` "
        "records it and logs a warning.",
    )
