"""The purchase manager: each purchase independently, retried until it is decided."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count

import pytest

from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseStatus,
    PurchaseTakenBack,
)
from libs.purchases.encryption import SecretLost
from libs.tally.errors import LogUnavailable
from libs.telemetry.metrics import REGISTRY
from libs.views.purchases.purchase_views import Unreadable
from services.projector import purchase_manager
from services.projector.purchase_manager import AT_ONCE, PurchaseManager
from tests.support.builders.purchases_log import FoldedPurchases, a_purchase, folded_purchases
from tests.support.eventually import eventually

PARTITIONS = 2


@pytest.fixture
async def purchases(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedPurchases]:
    async with folded_purchases(kafka, valkey_address, namespace, PARTITIONS) as folded:
        yield folded


@asynccontextmanager
async def managed(
    purchases: FoldedPurchases,
    take_step: Callable[[Purchase], Awaitable[PurchaseEvent]],
    assigned: tuple[int, ...] = tuple(range(PARTITIONS)),
) -> AsyncIterator[None]:
    manager = PurchaseManager(purchases.topic, purchases.views, purchases.log, take_step, lambda: assigned)
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def cast(purchase: Purchase) -> PurchaseEvent:
    return PurchaseCast(account=purchase.account, key=purchase.key, at=1, accepted_at=1)


async def all_are(purchases: FoldedPurchases, events: list[PurchaseEvent], status: PurchaseStatus) -> None:
    async def look() -> bool:
        found = Counter([await purchases.status(event) for event in events])
        assert found == {status: len(events)}
        return True

    await eventually(look)


async def test_purchases_that_fail_or_hang_hold_back_no_others(purchases: FoldedPurchases) -> None:
    bad = [a_purchase(f"bad{number}") for number in range(2 * AT_ONCE)]
    slow = [a_purchase(f"slow{number}") for number in range(AT_ONCE - 1)]
    good = [a_purchase(f"good{number}") for number in range(2 * AT_ONCE)]
    attempts: Counter[str] = Counter()
    released = asyncio.Event()

    async def take(purchase: Purchase) -> PurchaseEvent:
        attempts[purchase.key] += 1
        if purchase.key.startswith("bad") and not released.is_set():
            raise LogUnavailable("away") if attempts[purchase.key] % 2 else RuntimeError("a bug")
        if purchase.key.startswith("slow"):
            await released.wait()
        return cast(purchase)

    await purchases.append(*bad, *slow, *good)
    async with managed(purchases, take):
        await all_are(purchases, list(good), PurchaseStatus.CAST)
        assert {await purchases.status(event) for event in [*bad, *slow]} == {PurchaseStatus.RECORDED}
        released.set()
        await all_are(purchases, [*bad, *slow], PurchaseStatus.CAST)


async def test_what_cannot_be_read_or_cast_is_set_aside_until_it_can_and_the_others_go_on(
    purchases: FoldedPurchases,
) -> None:
    """Also one whose account has another secret than it was recorded under."""
    good = [a_purchase(f"good{number}") for number in range(2 * AT_ONCE)]
    unreadable, sealed = in_partition(purchases, "unreadable", 0), in_partition(purchases, "sealed", 0)
    failing = in_partition(purchases, "failing", 1)
    is_mended = False

    async def take(purchase: Purchase) -> PurchaseEvent:
        if purchase.key == sealed.key:
            raise SecretLost("recorded under another secret")
        if purchase.key == failing.key and not is_mended:
            raise RuntimeError("a bug")
        return cast(purchase)

    def set_aside(partition: int) -> float | None:
        return REGISTRY.get_sample_value("tally_purchases_set_aside", {"partition": str(partition)})

    await purchases.append(unreadable)
    await eventually(partial(purchases.status, unreadable))
    await purchases.corrupt(unreadable)
    await purchases.append(sealed, failing, *good)
    async with managed(purchases, take):
        await all_are(purchases, list(good), PurchaseStatus.CAST)
        await eventually(lambda: (set_aside(0), set_aside(1)) == (2, 1))
        [todo, _] = await purchases.views.todo(0, -1, 10)
        assert isinstance(todo.purchase, Unreadable)
        is_mended = True
        await all_are(purchases, [failing], PurchaseStatus.CAST)
        await eventually(lambda: (set_aside(0), set_aside(1)) == (2, 0))


def in_partition(purchases: FoldedPurchases, name: str, partition: int) -> PurchaseRecorded:
    events = (a_purchase(f"{name}{number}") for number in count())
    return next(event for event in events if purchases.topic.partition_of(event.key) == partition)


@pytest.fixture
def folds_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow: else a step is repeated after two seconds."""
    monkeypatch.setattr(purchase_manager, "FOLD_S", 600.0)


@pytest.mark.usefixtures("folds_are_waited_for")
async def test_of_one_purchase_only_one_step_is_under_way(purchases: FoldedPurchases) -> None:
    events = [a_purchase(f"p{number}") for number in range(20)]
    under_way: Counter[str] = Counter()
    most_at_once = 0
    steps: dict[str, list[PurchaseStatus]] = {event.key: [] for event in events}

    async def take(purchase: Purchase) -> PurchaseEvent:
        nonlocal most_at_once
        under_way[purchase.key] += 1
        most_at_once = max(most_at_once, *under_way.values())
        refund = PurchaseRefunded(account=purchase.account, key=purchase.key, at=1)
        if purchase.status is PurchaseStatus.RECORDED:
            await purchases.append(refund)
        await asyncio.sleep(0.5)
        under_way[purchase.key] -= 1
        steps[purchase.key].append(purchase.status)
        if purchase.status is PurchaseStatus.RECORDED:
            return cast(purchase)
        return PurchaseTakenBack(account=purchase.account, key=purchase.key, at=1)

    await purchases.append(*events)
    async with managed(purchases, take):
        await all_are(purchases, list(events), PurchaseStatus.REFUNDED)

        async def taken_back() -> bool:
            found = [await purchases.views.get(event.account, event.key) for event in events]
            return all(isinstance(purchase, Purchase) and purchase.taken_back for purchase in found)

        await eventually(taken_back)
    assert most_at_once == 1
    assert all(taken[:2] == [PurchaseStatus.RECORDED, PurchaseStatus.REFUNDED] for taken in steps.values())


@pytest.mark.usefixtures("folds_are_waited_for")
async def test_what_was_recorded_is_left_alone_while_the_fold_comes_to_it(purchases: FoldedPurchases) -> None:
    """The first one's outcome is never folded; that the second is cast shows that the manager has looked again."""
    first, second = a_purchase("first"), a_purchase("second")
    attempts: Counter[str] = Counter()

    async def take(purchase: Purchase) -> PurchaseEvent:
        attempts[purchase.key] += 1
        if purchase.key == first.key:
            return PurchaseTakenBack(account=purchase.account, key=purchase.key, at=1)
        return cast(purchase)

    await purchases.append(first)
    async with managed(purchases, take):
        await eventually(lambda: attempts[first.key])
        await purchases.append(second)
        await all_are(purchases, [second], PurchaseStatus.CAST)
    assert attempts[first.key] == 1
