"""Purchases that prevent the retirement of a votes topic."""

from collections.abc import Awaitable, Callable

from libs.contracts.purchase_events import PurchaseCast, PurchasedVotes
from services.cli.commands.topics.obstacles import State, TopicContest, find_open_purchases
from tests.support.eventually import eventually
from tests.support.purchases_log import NOW_US, a_purchase, folded_purchases

CONTEST = TopicContest("c1", "Final", "a1", State.SEALED)


async def test_open_purchases_for_a_contest_of_the_topic_are_counted_and_named(
    kafka: str, valkey_address: str, namespace: str
) -> None:
    async with folded_purchases(kafka, valkey_address, namespace, 2) as purchases:

        async def problems() -> list[str]:
            found = find_open_purchases(purchases.topic.numbers, purchases.views, [CONTEST])
            return [each.problem async for each in found]

        other = PurchasedVotes(contest_key="c2", participant_key="p1", count=3)
        its = [a_purchase(f"its{number}") for number in range(3)]
        await purchases.append(*its, a_purchase("other", vote=other))
        await eventually(lambda: _are(problems, ["3 purchases for Final (c1) not processed yet"]))
        for each in its:
            await purchases.append(PurchaseCast(account=each.account, key=each.key, at=NOW_US, accepted_at=NOW_US))
        await eventually(lambda: _are(problems, []))


async def _are(problems: Callable[[], Awaitable[list[str]]], expected: list[str]) -> bool:
    found = await problems()
    assert found == expected
    return True
