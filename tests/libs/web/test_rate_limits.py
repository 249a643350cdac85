"""Rate limits of running servers: counted locally far from a limit, jointly near it."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from libs.storage.object_store import StorageUnavailable
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.request_counters import RateCounters
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.door.rate_limits import WINDOW_S, RateLimits, limits_of, stream_uncounted
from libs.web.errors import RateLimited
from libs.web.server.asgi_routes import PlainRoute
from libs.web.server.http_service import HttpModule, build_app
from libs.web.settings import HostSettings
from tests.libs.web.fake_keys import Key, Keys, above, scope
from tests.support.clients.http_clients import http_client
from tests.support.clients.metrics import refusals
from tests.support.clients.positions import HeldSecrets
from tests.support.eventually import eventually
from tests.support.servers.serving import served

NOW = 1_790_000_003.5
"""3.5 s into a window."""


class AnyKey(Keys):
    """Every token is a key of its own, with the rate that it ends in; "wrong" is none."""

    def __init__(self) -> None:
        self.looks = 0

    def get(self, token: str) -> Key | None:
        return None if token.startswith("wrong") else Key(token, rate=int(token.partition("-")[2] or 0))

    async def find(self, token: str) -> Key | None:
        self.looks += 1
        return None


class Counters:
    """In memory, for all who share it."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, int]] = Counter()
        self.calls = 0
        self.error: TallyError | None = None

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int:
        self.calls += 1
        if self.error is not None:
            raise self.error
        self.totals[name, window] += count
        return self.totals[name, window]


def limits(shared: Counters | None = None, now: float = NOW, **settings: Any) -> RateLimits:
    return RateLimits(HostSettings(**settings), Proxies(), shared, lambda: now)


async def admitted(limits: RateLimits, key: Key, requests: int) -> int:
    found = 0
    for _ in range(requests):
        try:
            given = scope()
            if not limits.take_for_key(given, key):
                await limits.charge_key(given, key)
            found += 1
        except RateLimited:
            pass
    return found


async def test_a_key_has_its_quota_in_each_window() -> None:
    key = Key("k", rate=5)
    now = [NOW]
    its = RateLimits(HostSettings(), Proxies(), Counters(), lambda: now[0])
    assert await admitted(its, key, 60) == 50
    assert await admitted(its, Key("other", rate=1), 60) == 10
    now[0] += WINDOW_S
    assert await admitted(its, key, 60) == 50


async def test_a_rate_of_zero_is_no_limit_and_none_is_the_setting_s() -> None:
    its = limits(rate_per_key=2)
    assert await admitted(its, Key("free", rate=0), 100) == 100
    assert await admitted(its, Key("usual"), 100) == 20
    assert await admitted(limits(rate_per_key=0), Key("usual"), 100) == 100


async def test_keys_share_the_rate_of_the_one_that_they_descend_from() -> None:
    manager = Key("manager", rate=5)
    children = [Key(f"child{number}", rate=5, ancestors=above(manager)) for number in range(12)]
    grandchild = Key("grandchild", ancestors=above(manager, children[0]))
    its = limits(Counters())
    found = 0
    for _ in range(60):
        for key in (manager, *children, grandchild):
            found += await admitted(its, key, 1)
    assert found == 50
    its, weak = limits(Counters()), Key("weak", rate=1, ancestors=above(manager))
    assert await admitted(its, weak, 60) == 10
    assert await admitted(its, manager, 60) == 40
    assert await admitted(limits(), Key("free", rate=0, ancestors=above(Key("root", rate=0))), 100) == 100


async def test_all_processes_together_stay_within_a_quota_and_seldom_ask() -> None:
    shared, key = Counters(), Key("k", rate=100)
    processes = [limits(shared) for _ in range(4)]
    found = 0
    for _ in range(300):
        for process in processes:
            found += await admitted(process, key, 1)
    assert 1000 <= found <= 1000 + 4 * 100
    assert shared.calls < 400
    far = limits(lone := Counters())
    assert await admitted(far, key, 90) == 90
    assert lone.calls == 0


@pytest.mark.parametrize("error", [ViewsUnavailable("away"), StorageUnavailable("no secret")])
async def test_while_the_shared_counters_are_away_each_process_goes_by_its_own(error: TallyError) -> None:
    shared, key = Counters(), Key("k", rate=10)
    shared.error = error
    its = limits(shared)
    assert await admitted(its, key, 200) == 100
    assert shared.calls < 5


async def test_an_answer_says_what_is_left() -> None:
    its, given = limits(rate_per_key=5), scope()
    assert its.take_for_key(given, Key("k"))
    assert its.headers(given) == [
        (b"ratelimit-policy", b'"key";q=50;w=10'),
        (b"ratelimit", b'"key";r=49;t=7'),
    ]
    assert its.headers(scope()) == []


async def test_a_request_that_is_looked_up_twice_counts_once() -> None:
    its, given = limits(rate_per_key=1), scope()
    for _ in range(30):
        await its.charge_key(given, Key("k"))
    assert await admitted(its, Key("k"), 30) == 9


@pytest.mark.parametrize(
    ("path", "headers", "is_counted"),
    [
        ("/public/contests/c/results", [], True),
        ("/public/contests/c/results", [("authorization", "Bearer whatever")], True),
        ("/media/image/i", [("cookie", "a=b")], True),
        ("/contests", [], True),
        ("/contests", [("authorization", "Bearer tk")], False),
        ("/legacy/contests", [("service-key", "tk")], False),
        ("/readyz", [], False),
        ("/readyz-and-more", [], True),
        ("/openapi.json", [("authorization", "Basic x")], True),
    ],
)
async def test_what_needs_no_key_is_counted_by_its_address(path: str, headers: Any, is_counted: bool) -> None:
    its = limits(rate_per_address=1)

    async def ask(number: int, network: str = "2001:db8::") -> None:
        await its.charge_keyless(scope(f"{network}{number}", *headers, path=path))

    for number in range(10):
        await ask(number)
    if is_counted:
        counted = refusals("rate")
        with pytest.raises(RateLimited) as refused:
            await ask(11)
        assert refused.value.retry_after_s == 7
        assert refusals("rate") == counted + 1
    await ask(1, "2001:db9::" if is_counted else "2001:db8::")


async def accepted(its: RateLimits, key: Key | None, sizes: list[int], path: str = "/contests") -> list[int]:
    """Return the sizes of the bodies that are not refused."""
    found = []
    for size in sizes:
        given = scope(path=path)
        if key is not None:
            await its.charge_key(given, key)
        try:
            await its.charge_body(given, size)
            found.append(size)
        except RateLimited:
            assert its.headers(given)[0][1].endswith(b'-bytes";q=1000;w=10;qu="content-bytes"')
    return found


async def test_bodies_have_a_quota_of_bytes_by_key_and_by_address() -> None:
    its = limits(Counters(), rate_bytes_per_key=100, rate_bytes_per_address=100)
    assert await accepted(its, Key("k"), [600, 300, 90, 20, 1]) == [600, 300, 90, 20]
    assert await accepted(its, None, [1000, 1]) == [1000]
    assert await accepted(its, Key("child", ancestors=above(Key("k"))), [1]) == []
    assert await accepted(its, Key("other"), [1]) == [1]
    assert await accepted(its, Key("free", rate=0), [5_000, 5_000]) == [5_000, 5_000]
    free = limits(rate_bytes_per_key=0, rate_bytes_per_address=0)
    assert await accepted(free, Key("k"), [5_000, 5_000]) == [5_000, 5_000]
    assert await accepted(free, None, [5_000, 5_000]) == [5_000, 5_000]


async def test_a_body_larger_than_the_quota_is_admitted_in_a_window_without_others() -> None:
    its = limits(Counters(), rate_bytes_per_key=100)
    assert await accepted(its, Key("k"), [5_000, 1]) == [5_000]
    with pytest.raises(RateLimited, match="may send 100 bytes in bodies a second, 1000 in 10 s") as refused:
        await its.charge_body(scope() | {"state": {"key": Key("k")}}, 1)
    assert refused.value.retry_after_s == 7


async def test_processes_share_a_quota_of_bytes() -> None:
    shared = Counters()
    one, other = (limits(shared, rate_bytes_per_key=100) for _ in range(2))
    assert await accepted(one, Key("k"), [900, 50]) == [900, 50]
    assert len(await accepted(other, Key("k"), [90] * 20)) <= 10
    assert await accepted(one, Key("k"), [50, 1]) == []


written: list[int] = []


def an_app(keys: Keys, counters: Any) -> FastAPI:
    auth = Authenticator(keys, Proxies())

    async def keyed(request: Request) -> Response:
        key = auth.known(request.scope) or await auth.authenticate(request.scope)
        return Response(key.key_id)

    async def stored(request: Request) -> Response:
        await keyed(request)
        return Response(str(len(await request.body())))

    app = build_app(
        "rates", [HttpModule(hot=[PlainRoute("/votes", stored, methods=["POST"])], rate_counts=counters)]
    )

    async def file(request: Request) -> Response:
        stream_uncounted(request.scope)
        return await stored(request)

    async def signed(request: Request) -> Response:
        limits = limits_of(request.scope)
        if limits is not None:
            await limits.charge_unauthenticated(request.scope)
        written.append(1)
        return Response(status_code=204)

    app.router.add_route("/stored", stored, methods=["POST"])
    app.router.add_route("/file", file, methods=["POST"])
    app.router.add_route("/keyed", keyed)
    app.router.add_route("/signed", signed, methods=["PUT"])
    app.router.add_route("/legacy/keyed", keyed)
    return app


async def statuses(client: httpx.AsyncClient, times: int, path: str = "/keyed", **headers: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for _ in range(times):
        found[(await client.get(path, headers=headers)).status_code] += 1
    return found


async def test_two_servers_share_a_limit(valkey_address: str, namespace: str) -> None:
    valkeys = [open_valkey(valkey_address) for _ in range(2)]
    apps = [an_app(AnyKey(), RateCounters(valkey, namespace, HeldSecrets(b"s" * 32))) for valkey in valkeys]
    async with served(apps[0]) as one, served(apps[1]) as other, http_client() as client:

        async def share() -> bool:
            """Within one window."""
            headers = {"authorization": f"Bearer k{len(tried)}-4"}
            tried.append(1)
            answers = [await client.get(f"{server.url}/keyed", headers=headers) for server in (one, other) * 40]
            assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"key";q=40;w=10'}
            admitted = sum(answer.status_code == 200 for answer in answers)
            refused = [answer for answer in answers if answer.status_code == 429]
            assert all(answer.json()["code"] == "rate_limited" for answer in refused)
            for answer in refused:
                name, _, reset_s = answer.headers["ratelimit"].rpartition(";t=")
                assert name == '"key";r=0'
                assert 0 < int(reset_s) <= int(answer.headers["retry-after"]) <= WINDOW_S
            assert 40 <= admitted <= 48
            return True

        tried: list[int] = []
        await eventually(share)
    for valkey in valkeys:
        await valkey.close()


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_bodies_count_by_their_declared_length_or_as_they_arrive(is_chunked: bool) -> None:
    settings = {"rate_bytes_per_key": 10_000}

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"a" * 10_000

    async def post(client: httpx.AsyncClient, key: str, path: str = "/stored") -> httpx.Response:
        content = chunks() if is_chunked else b"a" * 40_000
        return await client.post(path, headers={"authorization": f"Bearer {key}"}, content=content)

    async with served(an_app(AnyKey(), None), **settings) as server, http_client(base_url=server.url) as client:

        async def flood() -> bool:
            """Within one window."""
            key = f"k{len(tried)}-9"
            tried.append(1)
            answers = [await post(client, key) for _ in range(4)]
            assert [answer.status_code for answer in answers[:2]] == [200, 200]
            refused = answers[-1]
            assert refused.status_code == 429
            assert refused.json()["code"] == "rate_limited"
            assert 0 < int(refused.headers["retry-after"]) <= WINDOW_S
            assert refused.headers["ratelimit-policy"] == '"key-bytes";q=100000;w=10;qu="content-bytes"'
            assert {(await post(client, key, path)).status_code for path in ("/votes", "/file")} == {200}
            return True

        tried: list[int] = []
        await eventually(flood)


async def test_wrong_keys_have_a_limit_of_their_own_and_right_ones_go_on() -> None:
    keys = AnyKey()
    settings = {"rate_failures_per_address": 1, "rate_per_address": 0}
    async with served(an_app(keys, None), **settings) as server, http_client(base_url=server.url) as client:

        async def guess() -> bool:
            """Within one window."""
            looks = keys.looks
            found = await statuses(client, 30, authorization="Bearer wrong")
            assert found == {401: 10, 429: 20}
            assert keys.looks == looks + 10
            assert await statuses(client, 5, authorization="Bearer right") == {200: 5}
            refused = await client.get("/legacy/keyed", headers={"authorization": "Bearer wrong"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            return True

        await eventually(guess)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/keyed", {}),
        ("/keyed", {"cookie": "a=b"}),
        ("/keyed", {"cookie": "tally_session=forged"}),
        ("/keyed", {"authorization": "Basic eDp5"}),
        ("/legacy/keyed", {"service-key": "x"}),
        ("/legacy/keyed", {"service-key": "x", "service-brand": "y"}),
        ("/nothing-here", {"authorization": "Bearer right"}),
        ("/openapi.json", {"service-key": "x"}),
        ("/livez-not", {"cookie": "a=b"}),
    ],
)
async def test_no_header_exempts_a_caller_without_a_key(path: str, headers: dict[str, str]) -> None:
    settings = {"rate_failures_per_address": 0, "rate_per_address": 1}
    async with served(an_app(AnyKey(), None), **settings) as server, http_client(base_url=server.url) as client:

        async def flood() -> bool:
            """Within one window."""
            found = await statuses(client, 40, path, **headers)
            assert found[429] == 30
            refused = await client.get(path, headers=headers)
            assert "retry-after" in refused.headers
            return True

        await eventually(flood)


async def test_a_write_that_needs_no_key_is_refused_before_it_takes_effect() -> None:
    async with served(an_app(AnyKey(), None), rate_per_address=1) as server, http_client() as client:

        async def flood() -> bool:
            """Within one window."""
            written.clear()
            answers = [await client.put(f"{server.url}/signed", headers={"cookie": "a=b"}) for _ in range(30)]
            assert Counter(answer.status_code for answer in answers) == {204: 10, 429: 20}
            assert len(written) == 10
            return True

        await eventually(flood)
