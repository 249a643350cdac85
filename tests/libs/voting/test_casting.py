"""Votes through the service: at a closed gate, and with unknown appends, on a real ledger."""

import asyncio

import pytest

from libs.contracts.log_records import Appended
from libs.tally.errors import AppendUnknown, LedgerCatchingUp
from libs.tally.events import Event, VoteCast
from libs.voting import group_queue, protocol_driver, protocol_run
from libs.voting.group_queue import GROUP_VOTES, LEAST_GROUP
from libs.voting.protocol.shared_steps import Accepted
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, Receipts, Serve
from tests.support.builders.contests import a_contest, a_vote
from tests.support.eventually import eventually

WAITING = 200


@pytest.fixture
def service(serve: Serve) -> VotingService:
    return serve(a_contest())


async def test_votes_of_clients_that_vote_again_share_the_calls_of_their_group(
    service: VotingService, valkey: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in ticks of their own, as each client reads its answer and sends its next vote."""
    monkeypatch.setattr(group_queue, "SHORT_WAIT_S", 3_600.0)
    monkeypatch.setattr(group_queue, "LONGEST_WAIT_S", 3_600.0)
    await service.cast("account", [a_vote(voter="first")])
    clients = range(LEAST_GROUP)
    await service.cast("account", [a_vote(voter=f"v{n}") for n in clients])
    valkey.calls.clear()
    casting = []
    for n in clients:
        casting.append(asyncio.ensure_future(service.cast("account", [a_vote(voter=f"next {n}")])))
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.gather(*casting)
    assert valkey.calls == {"votes_reserve": 1, "votes_confirm": 1}


async def test_votes_at_a_closed_gate_ask_for_a_reservation_again_only_when_it_has_opened(
    partition: Partition, service: VotingService, valkey: Counted
) -> None:
    fence = await partition.shut()
    casting = [asyncio.ensure_future(service.cast("account", [a_vote(voter=f"v{n}")])) for n in range(WAITING)]
    await eventually(lambda: valkey.calls["votes_lookup"] > 5)
    batches = -(-WAITING // GROUP_VOTES)
    assert valkey.calls["votes_reserve"] == batches
    await partition.fold(fence)
    outcomes = [outcome for outcomes in await asyncio.gather(*casting) for outcome in outcomes]
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes[:3]
    # once more for the configuration, which went with the gate
    assert valkey.calls["votes_reserve"] <= 4 * batches
    assert valkey.calls["votes_raise"] <= batches


async def test_a_gate_that_stays_closed_is_answered_in_time(
    partition: Partition, service: VotingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_run, "GATE_WAIT_S", 0.2)
    await partition.shut()
    [outcome] = await service.cast("account", [a_vote()])
    assert isinstance(outcome, LedgerCatchingUp)
    assert outcome.retry_after_s == 1


async def test_a_vote_that_is_sent_again_gets_the_receipt_in_its_record_whatever_signs_now(
    partition: Partition, serve: Serve, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(partition: int, offset: int) -> Event:
        return log.events[0]

    service = serve(a_contest(), read)

    async def given() -> str:
        [outcome] = await service.cast("account", [a_vote()])
        assert isinstance(outcome, Accepted), outcome
        return outcome.receipt

    first = await given()
    assert await given() == first
    cast = log.events[0]
    assert isinstance(cast, VoteCast)
    assert cast.receipt == first
    await partition.fold(cast)
    assert await given() == first
    monkeypatch.setattr(Receipts, "is_first", lambda self, moment: False)
    monkeypatch.setattr(Receipts, "at", lambda self, moment: b"a later secret")
    assert await given() == first


async def test_what_nothing_decides_is_unknown_at_its_deadline(
    service: VotingService, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_run, "SETTLE_WAIT_S", 0.4)
    monkeypatch.setattr(protocol_driver, "LAST_READ_WAIT_S", 0.2)
    log.answers = lambda _: AppendUnknown("no acknowledgement")
    outcomes = await service.cast("account", [a_vote(voter=f"v{n}") for n in range(3)])
    assert all(isinstance(outcome, AppendUnknown) for outcome in outcomes)


async def test_past_the_deadline_one_look_is_taken(
    partition: Partition, service: VotingService, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = await service.cast("account", [a_vote(voter="first")])
    assert isinstance(first, Accepted)
    await partition.fold(*log.events)
    confirm = partition.views.confirm

    async def late(*of: int) -> bool:
        await partition.fold(log.events[-1])
        await asyncio.sleep(0.1)
        await partition.fence()
        return await confirm(*of)

    monkeypatch.setattr(partition.views, "confirm", late)
    monkeypatch.setattr(protocol_run, "SETTLE_WAIT_S", 0.05)
    log.answers = lambda _: Appended(0, partition.end, True)
    [outcome] = await service.cast("account", [a_vote()])
    assert isinstance(outcome, Accepted)


async def test_a_defect_fails_its_request_alone(service: VotingService, log: Log) -> None:
    await service.cast("account", [a_vote(voter="first")])

    def broken(number: int) -> None:
        raise ZeroDivisionError

    log.answers = broken
    with pytest.raises(ZeroDivisionError):
        await service.cast("account", [a_vote(voter="second")])
    log.answers = lambda _: None
    [outcome] = await service.cast("account", [a_vote(voter="third")])
    assert isinstance(outcome, Accepted)
