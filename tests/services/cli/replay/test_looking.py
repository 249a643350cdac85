"""`tally replay run --until` and `--to-position`: views as they were, to be looked at, and never read."""

from __future__ import annotations

from libs.views.generations import State
from tests.services.cli.replay.desk import Desk, count, voted
from tests.support.voting import Api, Contest

VOTERS = [f"voter {number}" for number in range(10)]


async def looked_at(desk: Desk, contest: Contest, generation: int) -> int:
    found = await desk.told("count", "--contest", contest.key, "--generation", str(generation))
    return int(found["record"]["count"])


async def side(desk: Desk, *arguments: str) -> int:
    done = await desk.told("replay", "run", "--projection", "votes", "--execute", *arguments)
    [rebuilt] = done["rebuilt"]
    assert (rebuilt["swapped"], rebuilt["verified"]) == (False, None)
    return int(rebuilt["generation"])


async def test_views_up_to_a_time_show_what_the_log_says_of_that_time(api: Api, desk: Desk) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    then = (await desk.told("count", "--contest", contest.key))["last_event"]
    await voted(contest, "later")
    number = await side(desk, "--until", then)
    at = await desk.told("count", "--contest", contest.key, "--at", then, "--sources")
    held = await desk.told("count", "--contest", contest.key, "--generation", str(number), "--sources")
    assert held["record"] == at["record"]
    assert held["record"]["count"] == len(VOTERS)
    assert held["positions"] == at["positions"]
    assert (await desk.told("verify", "--generation", str(number)))["positions"] == at["positions"]


async def test_views_up_to_a_position_end_there(api: Api, desk: Desk) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    answer = await contest.client.get(f"{contest.path}/vote_updates/")
    token = answer.headers["tally-position"]
    await voted(contest, "later")
    number = await side(desk, "--to-position", token)
    assert (await looked_at(desk, contest, number), await count(contest)) == (len(VOTERS), len(VOTERS) + 1)


async def test_they_are_neither_read_nor_folded_further_nor_taken_up_by_the_next_replay(
    api: Api, desk: Desk
) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    live = await desk.live()
    number = await side(desk, "--until", "2020-01-01T00:00:00Z")
    assert (await looked_at(desk, contest, number), await count(contest)) == (0, len(VOTERS))
    await voted(contest, "later")
    assert await looked_at(desk, contest, number) == 0
    assert await desk.live() == live
    assert {one.others[number].state for one in await desk.generations().read_all()} == {State.SIDE}
    assert (await desk.run("replay", "rollback", "--generation", str(number), "--execute")).exit_code == 1
    rebuilt = await desk.replay()
    assert (rebuilt["resumed"], rebuilt["generation"]) == (False, number + 1)


async def test_of_one_contest_alone_they_hold_nothing_else(api: Api, desk: Desk) -> None:
    contest, other = [await api.contest() for _ in range(2)]
    await voted(contest, *VOTERS)
    await voted(other, *VOTERS)
    number = await side(desk, "--contest", contest.key, "--until", "2100-01-01T00:00:00Z")
    assert await looked_at(desk, contest, number) == len(VOTERS)
    assert not [key for key in await desk.keys_of(number) if other.key.encode() in key]
    assert (await desk.told("verify", "--generation", str(number)))["equal"]
    refused = await desk.run("count", "--contest", other.key, "--generation", str(number))
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"Error: Generation {number} is not of contest {other.key}.\n",
    )


async def test_a_spoilt_one_is_found_by_verify(api: Api, desk: Desk) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    number = await side(desk, "--until", "2100-01-01T00:00:00Z")
    assert (await desk.told("verify", "--generation", str(number)))["equal"]
    await desk.spoil(contest, number)
    wrong = await desk.told("verify", "--generation", str(number), code=1)
    assert {one["contest"] for one in wrong["differences"]} == {contest.key}
    assert (await desk.told("verify"))["equal"]


async def test_they_are_previewed_and_what_is_not_there_is_said_so(api: Api, desk: Desk) -> None:
    contest = await api.contest()
    preview = await desk.told("replay", "run", "--until", "2100-01-01T00:00:00Z")
    assert set(preview["events"]) == {"catalogue", "test", "votes", "purchases"}
    assert preview["events"]["votes"] > 0
    assert not any(one.others for one in await desk.generations().read_all())
    for command in (["verify"], ["count", "--contest", contest.key]):
        missing = await desk.run(*command, "--generation", "999")
        assert missing.exit_code == 2
        assert "There is no generation 999 of the votes" in missing.stderr
    both = await desk.run("count", "--contest", contest.key, "--generation", "1", "--at", "2020-01-01T00:00:00Z")
    assert both.exit_code == 2


async def test_a_position_of_the_votes_says_nothing_of_other_topics(desk: Desk) -> None:
    done = await desk.run("replay", "run", "--projection", "catalogue", "--to-position", "0.1")
    assert done.exit_code == 2
