"""The purchases' Lua fold equals the Python fold, for any batches, duplicates and restarts."""

import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.purchase_events import (
    CAST,
    PurchaseCast,
    PurchaseCountedAgain,
    PurchasedVotes,
    PurchasePlace,
    PurchaseRefunded,
    PurchaseRefused,
    PurchasesEvent,
    PurchaseStatus,
    PurchaseTakenBack,
    PurchaseUncounted,
    PurchaseUpdated,
    Subscription,
)
from libs.contracts.topics import Topic
from libs.monitoring.quarantine import reasons_of
from libs.purchases.fold import PurchaseFold
from libs.tally.events import LogCreated
from libs.views.purchases.purchase_views import Entry, PaidChoice, PurchaseViews
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.test_catalogue_fold import LOG, fold_in_pieces
from tests.support.builders.contests import LAST
from tests.support.builders.purchases_log import NOW_US, a_purchase, purchase_key
from tests.support.hypothesis_examples import PROPERTY, examples
from tests.support.servers.freshness import make_fresh

NOW_MS = NOW_US // 1000
ACCOUNTS, USERS, NAMES = ["a1", "a2"], ["u1", "u2"], ["x", "y", "z"]

step = st.fixed_dictionaries(
    {
        "do": st.sampled_from(
            ["record", "update"] * 4
            + ["refund", "cast"] * 3
            + ["refuse", "take_back", "uncount", "count_again"] * 2
            + ["poison"]
        ),
        "account": st.sampled_from(["a1", "a1", "a1", "a2"]),
        "name": st.sampled_from(NAMES),
        "user": st.sampled_from(USERS),
        "votes": st.sampled_from([True, True, True, False]),
        "participant": st.sampled_from(["p1", "p2"]),
        "subscription": st.sampled_from(
            [None, Subscription(access=True, grace_end=-1), Subscription(expiration=7, grace_end=LAST)]
        ),
        "expiration": st.sampled_from([None, 0, -1, LAST]),
        "reported_s": st.sampled_from([None, 0, 1, 2, 3]),
        "after_ms": st.sampled_from([0, 0, 1, 7, -5]),
        "skew_us": st.sampled_from([0, -3_000_000, 5_000_000]),
    }
)


def event_of(step: dict[str, Any], time_ms: int) -> PurchasesEvent | Undecodable:
    at = time_ms * 1000 + step["skew_us"]
    of: dict[str, Any] = {"account": step["account"], "key": purchase_key(step["name"]), "at": at}
    match step["do"]:
        case "record":
            vote = PurchasedVotes(contest_key="c1", participant_key=step["participant"], count=3)
            kind: dict[str, Any] = {"vote": vote} if step["votes"] else {"vote": None, "kind": "subscription"}
            return a_purchase(
                **of, **kind, user=step["user"], subscription=step["subscription"], reported_at=reported_at(step)
            )
        case "update":
            state = {name: step[name] for name in ("subscription", "expiration")}
            return PurchaseUpdated(**of, **state, reported_at=reported_at(step))
        case "uncount":
            return PurchaseUncounted(**of, code="participant_not_votable", reason="rejected")
        case "count_again":
            return PurchaseCountedAgain(**of)
        case "refund":
            return PurchaseRefunded(**of)
        case "cast":
            return PurchaseCast(**of, accepted_at=at)
        case "refuse":
            return PurchaseRefused(**of, code="contest_not_running", reason="over")
        case "take_back":
            return PurchaseTakenBack(**of)
    return Undecodable("no event")


def reported_at(step: dict[str, Any]) -> int | None:
    return None if step["reported_s"] is None else NOW_US + step["reported_s"] * 1_000_000


def folded(entries: list[Entry]) -> PurchaseFold:
    fold = PurchaseFold()
    for record, event in entries:
        if isinstance(event, Undecodable):
            fold.time_ms = max(fold.time_ms, record.timestamp_ms)
        else:
            fold.evolve(event, record.offset, record.timestamp_ms)
    return fold


def views_of(valkey: ValkeyClient, partitions: int = 1) -> PurchaseViews:
    return PurchaseViews(valkey, namespace := f"t{uuid.uuid4().hex[:8]}", Topic(f"{namespace}.p", partitions))


async def assert_equal(views: PurchaseViews, entries: list[Entry]) -> None:
    fold = folded(entries)
    assert await views.position(0) == Position(LOG, len(entries))
    await make_fresh(views.fresh)
    for account in ACCOUNTS:
        mine = [one for (owner, _), one in fold.purchases.items() if owner == account]
        for name in NAMES:
            key = purchase_key(name)
            assert await views.get(account, key) == fold.purchases.get((account, key))
        for user in USERS:
            bought = [one for one in mine if one.recorded is not None and one.recorded.user == user]
            newest = sorted(bought, key=lambda one: one.created, reverse=True)
            assert [one.purchase for one in await views.of_user(account, user, None, 10)] == newest
        refused = [one for one in mine if one.status in (PurchaseStatus.REFUSED, PurchaseStatus.UNCOUNTED)]
        newest = sorted(refused, key=lambda one: one.updated, reverse=True)
        assert [one.purchase for one in await views.refused(account, None, 10)] == newest
    todo = await views.todo(0, -1, 10)
    assert {(one.purchase.account, one.purchase.key) for one in todo} == {
        name for name, one in fold.purchases.items() if one.is_open
    }
    assert [one.offset for one in todo] == sorted(one.offset for one in todo)
    assert await listed_in(views) == bought_in(fold)
    assert await reasons_of(views.generations.valkey, views.generations, 0, 1) == {
        record.offset: event.reason for record, event in entries if isinstance(event, Undecodable)
    }


async def listed_in(views: PurchaseViews) -> dict[tuple[PaidChoice, str], list[str]]:
    """Return the keys of purchases by choice and status, as listed."""
    found: dict[tuple[PaidChoice, str], list[str]] = {}
    for choice, has_cast, has_uncounted in await views.choices(0):
        if has_cast:
            found[choice, "cast"] = await views.keys_of(0, choice, "cast", 10)
        if has_uncounted:
            found[choice, "uncounted"] = await views.keys_of(0, choice, "uncounted", 10)
    return found


def bought_in(fold: PurchaseFold) -> dict[tuple[PaidChoice, str], list[str]]:
    found: dict[tuple[PaidChoice, str], list[str]] = {}
    for one in sorted(fold.purchases.values(), key=lambda one: one.offset):
        if one.status in CAST and one.recorded is not None and one.recorded.vote is not None:
            choice = PaidChoice(one.account, one.recorded.vote.contest_key, one.recorded.vote.participant_key)
            found.setdefault((choice, one.status.value), []).append(one.key)
    return found


def logged(steps: list[dict[str, Any]]) -> list[Entry]:
    time_ms = NOW_MS
    entries: list[Entry] = [(LogRecord(0, time_ms, b""), LogCreated(LOG))]
    for offset, one in enumerate(steps, start=1):
        time_ms += one["after_ms"]
        entries.append((LogRecord(offset, time_ms, b""), event_of(one, time_ms)))
    return entries


@settings(PROPERTY, max_examples=examples(100))
@given(
    steps=st.lists(step, min_size=10, max_size=40),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    again=st.lists(st.booleans(), min_size=8, max_size=8),
)
async def test_any_log_cut_anyhow_and_partly_folded_twice_gives_the_plain_fold(
    valkey: ValkeyClient, steps: list[dict[str, Any]], cuts: list[int], again: list[bool]
) -> None:
    entries, views = logged(steps), views_of(valkey)
    await fold_in_pieces(views, 0, entries, cuts, again)
    await assert_equal(views, entries)


async def test_pages_over_all_partitions_give_every_purchase_once_newest_first(valkey: ValkeyClient) -> None:
    views = views_of(valkey, partitions=3)
    topic = Topic("t", 3)
    names = [f"n{number}" for number in range(30)]
    for partition in range(3):
        mine = [name for name in names if topic.partition_of(purchase_key(name)) == partition]
        entries = [(LogRecord(offset, NOW_MS, b""), a_purchase(name)) for offset, name in enumerate(mine)]
        await views.apply(partition, Position(LOG, 0), entries, len(entries))
        await make_fresh(views.fresh, partition)
    seen: list[PurchasePlace] = []
    while page := await views.of_user("a1", "u1", seen[-1] if seen else None, 7):
        seen += [one.place for one in page]
    assert sorted(seen, reverse=True) == seen
    assert {place.key for place in seen} == {purchase_key(name) for name in names}
    assert len(seen) == len(names)
