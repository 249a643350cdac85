"""Streams end with the validity of the key or session that opened them; public ones are bounded in number."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.catalogue_events import ApiKey, KeyRules
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing
from libs.web.door import auth
from libs.web.door.sessions import COOKIE, Sessions
from services.query.settings import Settings
from tests.services.query.query_environment import QueryEnvironment, open_environment, song
from tests.services.query.streams.stream_clients import PUBLIC_STREAM, STREAM, EndOfStream, Service, Stream, served
from tests.support.clients.metrics import refusals
from tests.support.eventually import eventually

FORWARDED = "X-Forwarded-For"


async def session_of(env: QueryEnvironment, key: str) -> str:
    """The cookie of a browser that logged in with the key."""
    sessions = Sessions(SecretRing(open_store(env.settings.storage_url), "sessions"))
    return f"{COOKIE}={await sessions.issue(key.split('_')[1])}"


async def assert_ended(
    service: Service, key: str, end: Callable[[], Awaitable[object]], status: int = 401
) -> None:
    """Assert that `end` closes the streams of the key and of its session, and not that of another key."""
    other = await service.env.production.key(rules=KeyRules(networks=("127.0.0.0/8",)))
    async with (
        service.listen(STREAM, key) as stream,
        service.listen(STREAM, cookie=await session_of(service.env, key)) as session,
        service.listen(STREAM, other) as kept,
    ):
        for each in (stream, session, kept):
            await each.next("counts")
        await end()
        for each in (stream, session):
            with pytest.raises(EndOfStream):
                await each.next()
        await service.env.vote("a")
        assert (await kept.next()).data["count"] == 1
    async with service.listen(STREAM, key) as stream:
        assert stream.response.status_code == status


async def test_a_revoked_key_hears_nothing_more_within_seconds_nor_do_its_sessions(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    await assert_ended(service, key, lambda: env.production.revoke(key))


async def test_a_key_that_expires_ends_its_streams_and_those_of_its_sessions(
    env: QueryEnvironment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await song(env)
    expires = time.time_ns() // 1000 + 3_600_000_000

    async def expire() -> None:
        monkeypatch.setattr(auth, "time", SimpleNamespace(time_ns=lambda: expires * 1000))

    await assert_ended(service, await env.production.key(rules=KeyRules(expires=expires)), expire)


async def test_a_key_whose_networks_leave_its_listener_out_ends_the_stream(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    """Commands give a key no other rules today; what holds of a stream is what holds of a request."""
    elsewhere = KeyRules(networks=("192.0.2.0/24",))
    await assert_ended(service, key, lambda: env.production.restrict(key, elsewhere), status=403)


async def test_many_sessions_that_end_at_once_hold_up_no_stream(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    other, cookie = await env.production.key(), await session_of(env, key)
    async with AsyncExitStack() as stack:
        for number in range(50):
            await stack.enter_async_context(service.listen(STREAM, cookie=f"browser={number}; {cookie}"))
        kept = await stack.enter_async_context(service.listen(STREAM, other))
        await env.production.revoke(key)
        ends = asyncio.get_running_loop().time() + 3
        assert (await kept.next("counts")).data["count"] == 0
        for votes in count(1):
            await env.vote("a")
            assert (await kept.next("counts", within_s=20)).data["count"] == votes
            if asyncio.get_running_loop().time() > ends:
                break


async def test_updates_do_not_wait_for_a_check_of_keys(
    env: QueryEnvironment, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_checked = asyncio.Event()

    async def never_ends(*_: object) -> None:
        is_checked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(auth.Authenticator, "authenticate", never_ends)
    await is_checked.wait()
    await env.vote("a")
    assert (await stream.next("counts", within_s=20)).data["count"] == 1


async def test_all_connections_of_a_caller_are_checked_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, checked = service.env, Counter[bytes]()
    several, single = await song(env), await env.production.key()
    async with AsyncExitStack() as stack:
        for key in (several, several, several, single):
            await stack.enter_async_context(service.listen(STREAM, key))
        authenticate = auth.Authenticator.authenticate

        async def counted(self: auth.Authenticator, scope: Any) -> ApiKey:
            checked[dict(scope["headers"])[b"authorization"]] += 1
            return await authenticate(self, scope)

        monkeypatch.setattr(auth.Authenticator, "authenticate", counted)
        await eventually(lambda: checked[f"Bearer {single}".encode()] == 2)
        assert checked[f"Bearer {several}".encode()] <= 3


async def test_public_streams_are_bounded_by_address_and_in_total(valkey_address: str, namespace: str) -> None:
    settings = {"stream_max_public": 3, "stream_max_public_per_address": 2, "trusted_proxies": "127.0.0.0/8"}
    assert settings.keys() <= Settings.model_fields.keys()
    async with open_environment(valkey_address, namespace, **settings) as env, served(env) as service:
        key = await song(env, "")

        async def status(address: str) -> int:
            async with service.client.stream("GET", PUBLIC_STREAM, headers={FORWARDED: address}) as answer:
                return answer.status_code

        counted = refusals("streams")
        async with AsyncExitStack() as listening:
            for _ in range(2):
                await listening.enter_async_context(service.listen(PUBLIC_STREAM, **{FORWARDED: "192.0.2.1"}))
            assert await status("192.0.2.1") == 503
            await listening.enter_async_context(service.listen(PUBLIC_STREAM, **{FORWARDED: "192.0.2.2:4711"}))
            assert await status("192.0.2.3") == 503
            assert refusals("streams") == counted + 2
            await listening.enter_async_context(service.listen(STREAM, key))

        async def is_free() -> bool:
            return await status("192.0.2.1") == 200

        await eventually(is_free)


def test_the_preset_of_a_venue_admits_a_hall_at_one_address_and_leaves_what_is_set() -> None:
    venue = Settings(limits="venue", rate_per_address=7)
    assert (venue.stream_max_public_per_address, venue.rate_per_address) == (5_000, 7)
    assert venue.http_max_connections_per_address == venue.http_max_connections
    assert Settings().stream_max_public_per_address == 100
