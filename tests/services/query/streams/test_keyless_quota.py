"""The number of public streams: bounded per address and in total."""

from contextlib import AsyncExitStack

from services.query.settings import Settings
from tests.services.query.query_environment import open_environment, song
from tests.services.query.streams.stream_clients import PUBLIC_STREAM, STREAM, served
from tests.support.eventually import eventually
from tests.support.metrics import refusals

FORWARDED = "X-Forwarded-For"


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
