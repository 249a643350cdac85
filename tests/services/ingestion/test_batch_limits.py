"""Batches beyond the limit are refused before their body is read."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import BATCH_BODY
from libs.contracts.position_token import PositionTokens
from libs.tally.errors import Overloaded
from libs.telemetry.metrics import REGISTRY
from libs.web.door.client_address import Proxies
from libs.web.server.hot_requests import AsgiRequest
from services.ingestion.vote_endpoints import Voting
from tests.support.clients.metrics import refusals
from tests.support.clients.positions import HeldSecrets
from tests.support.eventually import eventually

KEY = ApiKey("acme", "k", "", ("votes:write",), 0)


def a_worker(max_in_flight: int = 1, max_batch_bytes: int = BATCH_BODY, votes: Any = None) -> Voting:
    auth: Any = SimpleNamespace(known=lambda _: KEY)
    positions = PositionTokens(HeldSecrets(b"s" * 32))
    return Voting(auth, votes, positions, max_in_flight, max_batch_bytes, Proxies())


class Upload:
    """A batch whose body never comes."""

    def __init__(self, size: int | None = None) -> None:
        length = [] if size is None else [(b"content-length", str(size).encode())]
        self.scope: Any = {"headers": length, "path_params": {"contest_key": "c"}}
        self.is_read = asyncio.Event()

    async def receive(self) -> Any:
        self.is_read.set()
        await asyncio.Event().wait()

    async def send_to(self, worker: Voting) -> None:
        await worker.cast_batch(AsgiRequest(self.scope, self.receive))


@pytest.mark.parametrize("size", [None, 8, BATCH_BODY])
async def test_a_batch_beyond_the_bytes_that_are_held_is_not_read(size: int | None) -> None:
    worker, first, second = a_worker(), Upload(BATCH_BODY - 7), Upload(size)
    reading = asyncio.create_task(first.send_to(worker))
    await first.is_read.wait()
    with pytest.raises(Overloaded):
        await second.send_to(worker)
    assert not second.is_read.is_set()
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    reading = asyncio.create_task(second.send_to(worker))
    await second.is_read.wait()
    reading.cancel()


async def test_a_batch_is_not_read_while_all_votes_in_flight_are_taken() -> None:
    upload, refused = Upload(8), refusals("in_flight")
    with pytest.raises(Overloaded):
        await upload.send_to(a_worker(max_in_flight=0))
    assert not upload.is_read.is_set()
    assert refusals("in_flight") == refused + 1


async def test_votes_that_are_being_recorded_are_in_the_metrics() -> None:
    class Votes:
        may_end = asyncio.Event()

        async def cast(self, _: str, votes: list[Any]) -> list[Any]:
            await self.may_end.wait()
            return votes

    votes: Any = Votes()
    worker = a_worker(max_in_flight=10, votes=votes)
    recording = asyncio.create_task(worker._take("acme", [votes, votes, votes]))
    await eventually(lambda: REGISTRY.get_sample_value("tally_votes_in_flight") == 3)
    votes.may_end.set()
    await recording
    assert REGISTRY.get_sample_value("tally_votes_in_flight") == 0
