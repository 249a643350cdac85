"""The show of a contest: its control desks, and its screens.

Each screen receives what the show allows now, by a key or by a link, and nothing else.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from services.query.streams.routes import MOST_PER_LINK
from tests.services.query.streams.stream_clients import EndOfStream, Event, Stream
from tests.support.clients.http_clients import http_client, ok
from tests.support.clients.network_traffic import contains
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, Contest, code, hours_from_now, running
from tests.support.eventually import eventually

SAVED = {
    "state": "live",
    "held_at": None,
    "revealed": 0,
    "reveals": "counts",
    "is_released": False,
    "released_at": None,
    "call_to_vote": {"is_shown": False, "url": None, "text": None},
    "message": None,
}


@dataclass
class Screen:
    """A screen's stream, and all that it has received."""

    stream: Stream
    received: list[Event]

    async def until(self, check: Callable[[Event], bool]) -> Event:
        while True:
            event = await self.stream.next()
            self.received.append(event)
            if check(event):
                return event

    async def board(self, check: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        event = await self.until(lambda event: event.name == "board" and check(event.data))
        return event.data

    async def phase(self, state: str) -> dict[str, Any]:
        event = await self.until(lambda event: event.name == "phase" and event.data["show"]["state"] == state)
        return event.data

    @property
    def text(self) -> str:
        return "\n".join(event.text for event in self.received)


@asynccontextmanager
async def screen(client: httpx.AsyncClient, contest: Contest, link: str | None = None) -> AsyncIterator[Screen]:
    headers = {} if link is None else {"tally-link": link}
    async with client.stream("GET", f"{contest.path}/show/stream", headers=headers, timeout=60) as response:
        if response.status_code != 200:
            await response.aread()
            pytest.fail(response.text)
        yield Screen(Stream(response), [])


async def direct(contest: Contest, **show: Any) -> dict[str, Any]:
    return ok(await contest.client.put(f"{contest.path}/show", json=show))


async def lead(contest: Contest, *votes: int, to: str = "") -> None:
    """Give the participants so many votes each."""
    for number, count in enumerate(votes):
        if count:
            voter = f"{to}{number}"
            answer = await contest.vote(number, voter, source="c-paid", count=count)
            assert answer.status_code == 201, answer.text
            await contest.counts_with(answer)


def has_open(number: int, board: dict[str, Any]) -> bool:
    return len(board["participants"]) == number


def shown(board: dict[str, Any]) -> list[tuple[int, int]]:
    return [(entry["rank"], entry["count"]) for entry in board["participants"]]


async def link_of(contest: Contest, **members: Any) -> dict[str, Any]:
    return ok(await contest.client.post(f"{contest.path}/links", json=members), 201)


def token(link: dict[str, Any]) -> str:
    return link["url"].partition("#link=")[2]


async def test_two_desks_see_the_truth_and_do_not_overwrite_each_other(api: Api) -> None:
    contest = await api.contest()
    show = f"{contest.path}/show"
    first = await api.client.get(show)
    assert (first.status_code, first.json()) == (200, SAVED | {"contest_key": contest.key, "updated": None})
    held = await api.client.put(show, json={"state": "held"}, headers={"if-match": first.headers["etag"]})
    assert (held.status_code, held.json()["state"], held.json()["held_at"] is not None) == (200, "held", True)
    late = await api.client.put(show, json={"state": "live"}, headers={"if-match": first.headers["etag"]})
    assert code(late) == (412, "version_conflict")
    seen = await api.client.get(show)
    assert (seen.json(), seen.headers["etag"]) == (held.json(), held.headers["etag"])
    unchanged = await api.client.get(show, headers={"if-none-match": held.headers["etag"]})
    assert unchanged.status_code == 304
    # what was read can be sent back, with a change; since when it is held stays until a reveal begins
    noted = await api.client.put(show, json=seen.json() | {"message": "Now!"})
    assert noted.json()["held_at"] == held.json()["held_at"]
    revealing = await api.client.put(show, json=noted.json() | {"state": "reveal"})
    assert revealing.json()["held_at"] > held.json()["held_at"]
    further = await api.client.put(show, json=revealing.json() | {"revealed": 2})
    assert (further.json()["held_at"], further.json()["revealed"]) == (revealing.json()["held_at"], 2)
    live = await api.client.put(show, json={})
    assert live.json() == SAVED | {"contest_key": contest.key, "updated": live.json()["updated"]}


async def test_who_may_not_direct_the_show_only_reads_it(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    async with await client_with(stack, stack.stack["account"], "results:read") as wall:
        assert (await wall.get(f"{contest.path}/show")).status_code == 200
        refused = await wall.put(f"{contest.path}/show", json={})
        assert (code(refused), refused.json()["permission"]) == ((403, "forbidden"), "show:control")
    assert code(await api.client.put("/contests/none/show", json={})) == (404, "not_found")
    assert code(await api.client.get("/contests/none/show")) == (404, "not_found")
    wrong = await api.client.put(f"{contest.path}/show", json={"state": "paused", "revealed": -1})
    assert code(wrong) == (422, "validation_failed")
    assert {error["pointer"] for error in wrong.json()["errors"]} == {"/state", "/revealed"}


@pytest.mark.secured
async def test_a_result_released_by_hand_stays_hidden_after_the_end_until_the_release(
    api: Api, legacy: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    contest = await api.contest(
        body=running(result_release="by_hand", vote_visibility="hidden_until_vote", end=hours_from_now(1))
    )
    vote = await contest.vote(0)
    receipt = vote.json()["receipt"]
    await contest.counts_with(vote)
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200

    async def counts() -> list[Any]:
        public = f"/public{contest.path}/results"
        return [
            (await anonymous.get(public)).json()["count"],
            (await anonymous.get(public, params={"receipt": receipt})).json()["count"],
            (await legacy.get(contest.path)).json()["total_vote_count"],
        ]

    assert (await counts())[:2] == [None, None]
    released = await api.client.put(f"{contest.path}/show", json={"is_released": True})
    assert released.json()["released_at"] is not None

    async def are_shown() -> bool:
        return await counts() == [1, 1, 1]

    await eventually(are_shown)  # once the contest is closed


async def test_a_reopening_ends_the_show_and_each_control_desk_notices(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    """The result that was released is hidden again while the contest runs, and at its second end."""
    rules = {"result_release": "by_hand", "vote_visibility": "hidden_until_end"}
    contest = await api.contest(body=running(**rules, end=hours_from_now(1)))
    await contest.counts_with(await contest.vote(0))
    path, show = f"/public{contest.path}/results", f"{contest.path}/show"

    async def public_count() -> Any:
        return (await anonymous.get(path)).json()["count"]

    await contest.end()
    released = await direct(contest, state="result", is_released=True)
    tag = (await api.client.get(show)).headers["etag"]
    assert await public_count() == 1
    again = await api.client.post(f"{contest.path}/reopen", json={"end": hours_from_now(1)})
    assert again.status_code == 200, again.text
    assert await public_count() is None
    async with screen(api.client, contest) as wall:
        assert (await wall.phase("live"))["hidden"] is True
    now = await api.client.get(show, headers={"if-none-match": tag})
    assert (now.status_code, now.json()) == (200, SAVED | {"contest_key": contest.key, "updated": None})
    stale = await api.client.put(show, json={"state": "held"}, headers={"if-match": tag})
    assert code(stale) == (412, "version_conflict")
    await contest.end()
    assert await public_count() is None
    fresh = await api.client.put(
        show, json={"state": "result", "is_released": True}, headers={"if-match": now.headers["etag"]}
    )
    assert fresh.json()["released_at"] > released["released_at"]
    assert await public_count() == 1


async def test_a_held_screen_receives_no_later_vote_and_a_reveal_only_the_places_that_are_due(api: Api) -> None:
    contest = await api.contest(3)
    await lead(contest, 911, 507, 303)
    async with screen(api.client, contest) as wall:
        assert shown(await wall.board()) == [(1, 911), (2, 507), (3, 303)]
        held = await direct(contest, state="held")
        assert (await wall.board(lambda board: board["held_at"] is not None))["held_at"] == held["held_at"]
        await lead(contest, 0, 1_000, to="late")
        async with screen(api.client, contest) as reloaded:
            board = await reloaded.board()
            assert (shown(board), board["count"]) == ([(1, 911), (2, 507), (3, 303)], 1721)
        # the reveal is of the result, not of what was held
        await direct(contest, state="reveal")
        board = await wall.board(lambda board: board["covered"] == 3)
        assert (board["participants"], board["count"], board["unique_voter_count"]) == ([], None, None)
        await direct(contest, state="reveal", revealed=2)
        board = await wall.board(lambda board: board["covered"] == 1)
        assert (shown(board), board["count"]) == ([(2, 911), (3, 303)], None)
        assert [entry["share"] for entry in board["participants"]] == [None, None]
        assert not contains(wall.text, 1507)
        assert not contains(wall.text, 2721)
        await direct(contest, state="result")
        assert shown(await wall.board(lambda board: board["covered"] == 0)) == [(1, 1507), (2, 911), (3, 303)]


async def test_hidden_counts_reach_no_screen_before_the_show_reveals_them(api: Api) -> None:
    contest = await api.contest(2, vote_visibility="hidden")
    await lead(contest, 911, 507)
    async with screen(api.client, contest) as wall:
        assert (await wall.phase("live"))["hidden"] is True
        await direct(contest, state="held")
        assert (await wall.phase("held"))["hidden"] is True
        await direct(contest, state="reveal", revealed=1)
        assert shown(await wall.board()) == [(2, 507)]
        assert not contains(wall.text, 911)
        await direct(contest, state="live")
        assert (await wall.phase("live"))["hidden"] is True
        assert not contains(wall.text, 911)
        await direct(contest, state="result")
        assert shown(await wall.board()) == [(1, 911), (2, 507)]


async def test_those_who_share_a_place_are_revealed_together(api: Api) -> None:
    contest = await api.contest(4)
    await lead(contest, 5, 3, 3, 1)
    async with screen(api.client, contest) as wall:
        for revealed, places in (
            (1, [(4, 1)]),
            (2, [(2, 3), (2, 3), (4, 1)]),
            (9, [(1, 5), (2, 3), (2, 3), (4, 1)]),
        ):
            await direct(contest, state="reveal", revealed=revealed)
            board = await wall.board(partial(has_open, len(places)))
            assert shown(board) == places


async def test_a_reveal_of_points_sends_no_counts(api: Api) -> None:
    contest = await api.contest(12)
    votes = [100_003 + 1_009 * number for number in range(12)]
    await lead(contest, *votes)
    async with screen(api.client, contest) as wall:
        await direct(contest, state="held", reveals="points")
        await wall.board(lambda board: board["held_at"] is not None)
        received = len(wall.received)
        for revealed, points in ((1, [0]), (9, [7, 6, 5, 4, 3, 2, 1, 0, 0]), (12, [12, 10, 8])):
            await direct(contest, state="reveal", reveals="points", revealed=revealed)
            board = await wall.board(partial(has_open, revealed))
            assert [entry["points"] for entry in board["participants"]][: len(points)] == points
            assert (board["count"], board["unique_voter_count"]) == (None, None)
        sent = "\n".join(event.text for event in wall.received[received:] if event.name == "board")
        assert not [number for number in (*votes, sum(votes)) if contains(sent, number)]


async def test_a_reveal_after_the_end_is_final_and_comes_before_the_release(api: Api) -> None:
    contest = await api.contest(body=running(result_release="by_hand") | {"contest_type": "rating"})
    for voter, value in (("ann", 5), ("bob", 4)):
        assert (await contest.rate(1, value, voter)).status_code == 201
    await contest.end()
    async with screen(api.client, contest) as wall:
        assert (await wall.phase("live"))["hidden"] is True
        await direct(contest, state="reveal", revealed=9)
        board = await wall.board()
        assert (board["final"], board["covered"]) == (True, 0)
        assert [entry["rating"]["average"] for entry in board["participants"]] == [4.5, None]
        # a participant that is disqualified now waits for a reopening: the result stays
        await direct(contest, state="live", is_released=True)
        await wall.board(lambda board: board["held_at"] is None)


@pytest.mark.secured
async def test_a_link_opens_the_screens_of_its_contest_until_it_is_revoked(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    contest, other = await api.contest(2), await api.contest(2)
    await lead(contest, 2, 1)
    link = await link_of(contest, name="Hall")
    assert (link["contest_key"], link["name"]) == (contest.key, "Hall")
    listed = await api.client.get(f"{contest.path}/links")
    assert listed.json() == {"data": [link], "next": None}
    async with screen(anonymous, contest, token(link)) as wall:
        assert shown(await wall.board()) == [(1, 2), (2, 1)]
        await direct(contest, state="held")
        await wall.phase("held")
        revoked = await api.client.delete(f"{contest.path}/links/{link['key']}")
        assert revoked.status_code == 204
        with pytest.raises(EndOfStream):
            await wall.until(lambda _: False)
    of_link = token(link)
    for target, given in ((contest, of_link), (other, of_link), (contest, link["key"]), (contest, "x.y")):
        answer = await anonymous.get(f"{target.path}/show/stream", headers={"tally-link": given})
        assert code(answer) == (401, "unauthorized")
    assert code(await anonymous.get(f"{contest.path}/show/stream")) == (401, "unauthorized")
    assert code(await api.client.delete(f"{contest.path}/links/{link['key']}")) == (404, "not_found")


async def test_a_link_opens_neither_another_contest_nor_anything_but_the_screens(api: Api) -> None:
    contest, other = await api.contest(), await api.contest()
    link = await link_of(contest)
    async with http_client(base_url=api.client.base_url, headers={"tally-link": token(link)}) as anyone:
        assert code(await anyone.get(f"{other.path}/show/stream")) == (401, "unauthorized")
        brand = await anyone.get("/dashboard/brand")
        assert brand.status_code == 200
        assert {"name", "logo_key", "primary_color"} <= brand.json().keys()
        assert code(await anyone.get("/account")) == (401, "unauthorized")
        for path in ("", "/show", "/links", "/vote_updates", "/vote_updates/stream", "/timeline", "/participants"):
            assert code(await anyone.get(contest.path + path)) == (401, "unauthorized"), path
    ended = await api.client.delete(f"{other.path}/links/{link['key']}")
    assert code(ended) == (404, "not_found")


async def test_a_link_names_no_participants_that_only_their_owner_sees(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    contest = await api.contest(2, participant_visibility="owner_only")
    await lead(contest, 2, 1)
    link = token(await link_of(contest))
    async with screen(api.client, contest) as own, screen(anonymous, contest, link) as linked:
        assert shown(await own.board()) == [(1, 2), (2, 1)]
        board = await linked.board()
        assert (board["participants"], board["count"]) == ([], 3)
        await direct(contest, state="reveal", revealed=0)
        await direct(contest, state="reveal", revealed=2)
        revealed = await linked.board(lambda board: board["covered"] == 0 and board["held_at"] is not None)
        assert revealed["participants"] == []
        assert all(key in own.text and key not in linked.text for key in contest.participants)


async def test_a_link_that_opens_many_screens_leaves_room_for_those_of_others(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    contest = await api.contest()
    leaked, other = token(await link_of(contest)), token(await link_of(contest))
    path = f"{contest.path}/show/stream"
    async with AsyncExitStack() as walls:
        for _ in range(MOST_PER_LINK):
            await walls.enter_async_context(screen(anonymous, contest, leaked))
        async with anonymous.stream("GET", path, headers={"tally-link": leaked}) as refused:
            assert refused.status_code == 503
        async with screen(anonymous, contest, other) as wall:
            await wall.board()
    async with screen(anonymous, contest, leaked) as wall:
        await wall.board()


async def test_a_link_has_an_end_and_needs_the_permission_to_direct_the_show(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    for expires in (hours_from_now(-1), hours_from_now(24 * 400)):
        refused = await api.client.post(f"{contest.path}/links", json={"expires": expires})
        assert code(refused) == (422, "validation_failed")
        assert [error["pointer"] for error in refused.json()["errors"]] == ["/expires"]
    by_default = await link_of(contest)
    assert hours_from_now(24 * 6) < by_default["expires"] < hours_from_now(24 * 8)
    async with await client_with(stack, stack.stack["account"], "results:read") as reader:
        for send in (reader.get, reader.post):
            answer = await send(f"{contest.path}/links")
            assert (code(answer), answer.json()["permission"]) == ((403, "forbidden"), "show:control")
    assert code(await api.client.post("/contests/none/links", json={})) == (404, "not_found")
