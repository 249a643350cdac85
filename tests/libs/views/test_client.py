"""The shared connection to Valkey: every call gets an answer of its own, whatever becomes of the others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.views import client
from libs.views.client import Coalescer, connect
from libs.views.settings import ValkeySettings


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[Coalescer]:
    valkey = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    yield valkey
    await valkey.close()


class Link:
    """Stands for the client library: its pipelines end as `execute` says. For the wiring alone."""

    def __init__(self, execute: Any) -> None:
        self._execute = execute
        self.sent: list[list[Any]] = []

    def pipeline(self, transaction: bool) -> "Link":
        self.sent.append([])
        return self

    def execute_command(self, *command: Any) -> None:
        self.sent[-1].append(command[1])

    async def execute(self, raise_on_error: bool) -> list[Any]:
        replies: list[Any] = await self._execute()
        return replies

    async def aclose(self) -> None:
        pass


async def outcomes(*calls: Any) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)


@pytest.mark.parametrize("unfit", ["\ud800", None, True, object()])
async def test_an_argument_that_cannot_be_sent_fails_its_caller_alone(
    valkey: Coalescer, namespace: str, unfit: object
) -> None:
    first, second, third = await outcomes(
        valkey.call("SET", f"{namespace}:a", 1),
        valkey.call("SET", f"{namespace}:b", unfit),
        valkey.call("SET", f"{namespace}:c", "three"),
    )
    assert (first, third) == (True, True)
    assert isinstance(second, UnicodeEncodeError | TypeError)
    assert await valkey.call("GET", f"{namespace}:c") == b"three"


async def test_a_failure_that_nobody_foresaw_is_answered_to_all_of_its_pipeline() -> None:
    async def fails() -> list[Any]:
        raise RuntimeError("unforeseen")

    async def too_few() -> list[Any]:
        return [b"1"]

    for execute in fails, too_few:
        valkey = Coalescer(Link(execute))  # type: ignore[arg-type]
        *_, last = await outcomes(valkey.call("GET", "a"), valkey.call("GET", "b"))
        assert isinstance(last, ViewsUnavailable)
        await valkey.close()


async def test_a_cancelled_pipeline_leaves_nobody_without_an_answer() -> None:
    async def cancelled() -> list[Any]:
        raise asyncio.CancelledError

    valkey = Coalescer(Link(cancelled))  # type: ignore[arg-type]
    answers = await outcomes(valkey.call("GET", "a"), valkey.call("GET", "b"))
    assert all(isinstance(answer, ViewsUnavailable) for answer in answers)


async def test_a_silent_server_holds_nobody_longer_than_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that wait for a pipeline to leave; such a call is never sent, since nobody awaits its answer."""
    monkeypatch.setattr(client, "TIMEOUT_S", 0.2)
    thawed = asyncio.Event()

    async def frozen() -> list[Any]:
        await thawed.wait()
        return [b"late"]

    link = Link(frozen)
    valkey = Coalescer(link)  # type: ignore[arg-type]
    calls = []
    for number in range(5):
        calls.append(asyncio.ensure_future(valkey.call("GET", number)))
        await asyncio.sleep(0.01)  # a pipeline each, as long as one may leave
    answers = await outcomes(*calls)
    assert all(isinstance(answer, ViewsUnavailable) for answer in answers)
    thawed.set()
    assert await valkey.call("GET", "after") == b"late"
    assert link.sent == [[0], [1], [b"after"]]
    await valkey.close()


async def test_a_closed_connection_refuses_calls_at_once(valkey_address: str) -> None:
    valkey = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    await valkey.call("PING")
    await valkey.close()
    with pytest.raises(ViewsUnavailable):
        await valkey.call("PING")
