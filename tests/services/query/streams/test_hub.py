"""Events, subscribers and ends of streams."""

import asyncio
import time
from typing import Any

import pytest

from services.query.streams import hub
from services.query.streams.renderers import NO_CALL
from tests.services.query.query_environment import QueryEnvironment, closed_contest, contest, song
from tests.services.query.streams.stream_clients import (
    COUNTS,
    PUBLIC,
    PUBLIC_STREAM,
    STREAM,
    EndOfStream,
    Event,
    Service,
    Stream,
)
from tests.services.query.test_public_results import given_receipt
from tests.support.clients.voting import hours_from_now

QUIET_S = 0.5
"""Long enough for several looks."""


async def change(env: QueryEnvironment, **config: Any) -> None:
    await env.production.change("contests", "song", contest(**config))


def seconds_from_now(seconds: float) -> str:
    return hours_from_now(seconds / 3600)


def standing(event: Event) -> tuple[str, bool, bool]:
    return event.data["phase"], event.data["final"], event.data["hidden"]


async def test_a_stream_begins_with_what_plain_reads_answer_and_goes_on_with_votes(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    for path, query, name in (
        (COUNTS, "", "counts"),
        (COUNTS, "?sources=true", "counts"),
        (PUBLIC, "", "results"),
    ):
        async with service.listen(f"{path}/stream{query}", key) as stream:
            headers = stream.response.headers
            assert headers["content-type"].startswith("text/event-stream")
            assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
            phase = await stream.next()
            assert (phase.name, phase.retry, standing(phase)) == ("phase", "2000", ("running", False, False))
            of_the_contest = {
                "phase",
                "start",
                "end",
                "final",
                "sealed",
                "visibility",
                "result_release",
                "updated",
            }
            of_readers = {"show", "hidden", "is_public", "is_counting", "held_final", "lag", "server_time"}
            assert set(phase.data) == of_the_contest | of_readers
            assert phase.data["start"] == "2020-01-01T00:00:00.000000Z"
            for is_first in (True, False):
                event = await stream.next()
                plain = await env.get(path + query, key)
                assert (event.name, event.text.encode()) == (name, plain.content)
                assert f'"{event.id}"' == plain.headers["etag"]
                if is_first:
                    await env.vote("a", voter=event.id or "")


async def test_a_reconnecting_client_does_not_receive_again_what_still_holds(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    async with service.listen(STREAM, key) as stream:
        known = (await stream.next("counts")).id or ""
    async with service.listen(STREAM, key, last_event_id=known) as stream:
        assert (await stream.next()).name == "phase"
        await env.vote("a")
        assert (await stream.next()).data["count"] == 1
    async with service.listen(STREAM, key, last_event_id=known) as stream:
        assert (await stream.next("counts")).data["count"] == 1


async def test_nothing_is_said_of_other_contests(env: QueryEnvironment, stream: Stream) -> None:
    for number in range(5):
        await env.vote("a", contest="other", voter=f"v{number}")
    with pytest.raises(TimeoutError):
        await stream.next(within_s=QUIET_S)


async def test_phases_begin_and_end_by_the_clock_and_counts_are_shown_by_the_closing(
    env: QueryEnvironment, service: Service
) -> None:
    end = seconds_from_now(7200)
    await song(env, start=seconds_from_now(3600), end=end, vote_visibility="hidden_until_end")
    await env.vote("a")

    async def until(stream: Stream, expected: tuple[str, bool, bool]) -> Event:
        """Return the first event of this phase; before it, the phase that has a new end may be sent again."""
        while standing(event := await stream.next("phase")) != expected:
            pass
        return event

    async with (
        service.listen(STREAM, await env.production.reader()) as stream,
        service.listen(PUBLIC_STREAM) as public,
    ):
        for phase, hidden in (("announced", True), ("running", True), ("finished", True), ("finished", False)):
            if not hidden:
                closed = closed_contest("ab")
                closed["contest_config"]["vote_visibility"] = "hidden_until_end"
                await env.production.change("contests", "song", closed)
            elif phase != "announced":
                start = seconds_from_now(1 if phase == "running" else -1)
                times = {"start": start, "end": end if phase == "running" else seconds_from_now(1)}
                await change(env, **times, vote_visibility="hidden_until_end")
            event = await until(stream, (phase, False, hidden))
            if phase != "announced":
                assert event.data["end" if phase == "finished" else "start"] <= event.data["server_time"]
            await until(public, (phase, False, hidden))
            assert (await public.next("results")).data["count"] == (None if hidden else 1)
        assert (await stream.next("counts")).data["count"] == 1


async def test_that_nothing_changes_any_more_is_said(env: QueryEnvironment, stream: Stream) -> None:
    await env.production.change("contests", "song", closed_contest("ab"))
    assert standing(await stream.next("phase")) == ("finished", False, False)
    await env.close()
    assert standing(await stream.next("phase")) == ("finished", True, False)


async def test_what_becomes_hidden_is_not_followed_until_it_is_shown_again(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    async with (
        service.listen(STREAM, await env.production.reader()) as reader,
        service.listen(STREAM, key) as owner,
        service.listen(PUBLIC_STREAM) as public,
    ):
        for stream in (reader, owner, public):
            await stream.next("counts", "results")
        await change(env, vote_visibility="hidden")
        assert standing(await reader.next()) == ("running", False, True)
        assert standing(await public.next()) == ("running", False, True)
        assert (await public.next()).data["count"] is None
        for count in (1, 2):
            await env.vote("a", voter=f"v{count}")
            assert (await owner.counts(count)).data["count"] == count
        await change(env)
        for stream in (reader, public):
            phase, counts = await stream.next(), await stream.next()
            assert (standing(phase), counts.data["count"]) == (("running", False, False), 2)


async def test_a_receipt_opens_what_is_hidden_until_the_vote(env: QueryEnvironment, service: Service) -> None:
    await song(env, vote_visibility="hidden_until_vote")
    opened = f"{PUBLIC_STREAM}?receipt={await given_receipt(env)}"
    async with service.listen(opened) as voter, service.listen(f"{PUBLIC_STREAM}?receipt=none") as other:
        assert standing(await voter.next()) == ("running", False, False)
        assert standing(await other.next()) == ("running", False, True)
        await env.vote("a")
        assert (await voter.counts(1)).name == "results"
        await change(env, vote_visibility="hidden")
        assert standing(await voter.next()) == ("running", False, True)
        assert (await voter.next()).data["count"] is None


async def test_a_call_to_vote_reaches_the_public_once_it_is_shown(
    env: QueryEnvironment, service: Service, key: str
) -> None:
    await song(env)
    call = {"is_shown": False, "url": "https://vote.example", "text": "A surprise"}
    await env.production.create("shows", "song", {"call_to_vote": call})
    async with service.listen(STREAM, key) as owner, service.listen(PUBLIC_STREAM) as public:
        assert (await owner.next("phase")).data["show"]["call_to_vote"] == call
        assert (await public.next("phase")).data["show"]["call_to_vote"] == NO_CALL
        await env.production.change("shows", "song", {"call_to_vote": call | {"is_shown": True}})
        assert (await public.next("phase")).data["show"]["call_to_vote"] == call | {"is_shown": True}


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_contest_that_is_gone_ends_its_streams(
    env: QueryEnvironment, service: Service, key: str, is_deleted: bool
) -> None:
    async with service.listen(STREAM, key) as stream, service.listen(PUBLIC_STREAM) as public:
        await stream.next("counts")
        await public.next("results")
        if is_deleted:
            await env.production.delete("contests", "song")
        else:
            await env.production.change("contests", "song", contest() | {"publish": None})
            assert standing(await stream.next()) == ("setup", False, False)
        for ended in (stream, public) if is_deleted else (public,):
            assert (await ended.next()).name == "gone"
            with pytest.raises(EndOfStream):
                await ended.next()
    async with service.listen(PUBLIC_STREAM) as public:
        assert public.response.status_code == 404


async def test_a_stream_is_refused_as_the_plain_read_is(service: Service, key: str) -> None:
    for path, caller, status in (
        (STREAM, None, 401),
        ("/contests/none/vote_updates/stream", key, 404),
        ("/public/contests/none/results/stream", None, 404),
        (f"{COUNTS}/stream?sources=perhaps", key, 422),
    ):
        async with service.listen(path, caller) as stream:
            assert stream.response.status_code == status, path
            assert stream.response.headers["content-type"] == "application/problem+json"
    head = await service.client.head(STREAM, headers={"authorization": f"Bearer {key}"})
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream")
    assert (await service.client.post(STREAM)).status_code == 405


async def test_news_come_ten_times_a_second_at_most_and_the_last_is_the_latest(
    env: QueryEnvironment, stream: Stream
) -> None:
    began, votes, shown = time.monotonic(), 0, [0]

    async def vote() -> None:
        nonlocal votes
        while time.monotonic() < began + 1:
            votes += 1
            await env.vote("a", voter=f"v{votes}")

    voting = asyncio.create_task(vote())
    while not voting.done() or shown[-1] < votes:
        shown.append((await stream.next("counts")).data["count"])
    assert len(shown) <= (time.monotonic() - began) * 10 + 2


async def test_while_nothing_happens_a_ping_keeps_the_connection(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "PING_US", 200_000)
    for _ in range(2):
        assert (await stream.next("")).text == ""
