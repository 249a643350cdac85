"""What a campaign shows of a fault: also of one whose partner did not happen."""

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.campaign.campaign import Campaign
from tests.campaign.evidence import DidNotBite
from tests.campaign.faults import Fault
from tests.campaign.oracle import Oracle
from tests.campaign.plan import Episode
from tests.campaign.report import Outcome, notes, table


@asynccontextmanager
async def cannot_begin(_: object) -> AsyncIterator[None]:
    raise DidNotBite("it is down already")
    yield


@asynccontextmanager
async def shows_nothing(_: object) -> AsyncIterator[None]:
    yield
    raise DidNotBite("nothing was written")


@asynccontextmanager
async def happens(_: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("order", [("absent", "unseen", "shown"), ("shown", "unseen", "absent")])
async def test_a_fault_that_did_not_happen_hides_no_other(order: tuple[str, ...]) -> None:
    found: dict[str, Any] = {"absent": cannot_begin, "unseen": shows_nothing, "shown": happens}
    faults = {name: Fault(happen) for name, happen in found.items()}
    nobody: Any = None
    campaign = Campaign(nobody, nobody, nobody, nobody, nobody, nobody, nobody, faults, nobody)
    oracle, now = Oracle(), time.monotonic()
    outcome = Outcome(Episode(1, order, 0, 0, 1), now, ended_at=now + 1, healed_at=now + 2)
    async with AsyncExitStack() as opened:
        for name in order:
            await opened.enter_async_context(campaign._happening(name, outcome))
        oracle.doubt()
    assert outcome.did_not_bite == {"absent": "it is down already", "unseen": "nothing was written"}
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[2] for line in table([outcome], oracle)}
    assert [rows[name] for name in ("absent", "unseen", "shown")] == ["0", "0", "1"]
    assert "not shown to have bitten: absent, unseen" in notes([outcome], oracle, Counter())
