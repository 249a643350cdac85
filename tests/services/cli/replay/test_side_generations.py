"""`tally replay run --until` and `--to-position`: read-only copies of earlier views."""

from libs.views.generations import State
from tests.services.cli.replay.context import ReplayContext, count, voted
from tests.support.voting import Api, Contest

VOTERS = [f"voter {number}" for number in range(10)]


async def looked_at(context: ReplayContext, contest: Contest, generation: int) -> int:
    found = await context.run_json("count", contest.key, "--generation", str(generation))
    return int(found["record"]["count"])


async def side(context: ReplayContext, *arguments: str) -> int:
    done = await context.run_json("replay", "run", "--projection", "votes", "--execute", *arguments)
    [rebuilt] = done["rebuilt"]
    assert (rebuilt["swapped"], rebuilt["verified"]) == (False, None)
    return int(rebuilt["generation"])


async def test_views_up_to_a_time_show_what_the_log_says_of_that_time(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    then = (await context.run_json("count", contest.key))["last_event"]
    await voted(contest, "later")
    number = await side(context, "--until", then)
    at = await context.run_json("count", contest.key, "--at", then, "--sources")
    held = await context.run_json("count", contest.key, "--generation", str(number), "--sources")
    assert held["record"] == at["record"]
    assert held["record"]["count"] == len(VOTERS)
    assert held["positions"] == at["positions"]
    assert (await context.run_json("verify", "--generation", str(number)))["positions"] == at["positions"]


async def test_views_up_to_a_position_end_there(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    answer = await contest.client.get(f"{contest.path}/vote_updates/")
    token = answer.headers["tally-position"]
    await voted(contest, "later")
    number = await side(context, "--to-position", token)
    assert (await looked_at(context, contest, number), await count(contest)) == (len(VOTERS), len(VOTERS) + 1)


async def test_they_are_neither_read_nor_folded_further_nor_taken_up_by_the_next_replay(
    api: Api, context: ReplayContext
) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    live = await context.live()
    number = await side(context, "--until", "2020-01-01T00:00:00Z")
    assert (await looked_at(context, contest, number), await count(contest)) == (0, len(VOTERS))
    await voted(contest, "later")
    assert await looked_at(context, contest, number) == 0
    assert await context.live() == live
    assert {one.others[number].state for one in (await context.generations().read_all()).values()} == {State.SIDE}
    assert (await context.run("replay", "rollback", "--generation", str(number), "--execute")).exit_code == 2
    rebuilt = await context.replay()
    assert (rebuilt["resumed"], rebuilt["generation"]) == (False, number + 1)


async def test_of_one_contest_alone_they_hold_nothing_else(api: Api, context: ReplayContext) -> None:
    contest, other = [await api.contest() for _ in range(2)]
    await voted(contest, *VOTERS)
    await voted(other, *VOTERS)
    number = await side(context, contest.key, "--until", "2100-01-01T00:00:00Z")
    assert await looked_at(context, contest, number) == len(VOTERS)
    assert not [key for key in await context.keys_of(number) if other.key.encode() in key]
    assert (await context.run_json("verify", "--generation", str(number)))["equal"]
    refused = await context.run("count", other.key, "--generation", str(number))
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"Error: Generation {number} is not of contest {other.key}.\n",
    )


async def test_a_spoilt_one_is_found_by_verify(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    number = await side(context, "--until", "2100-01-01T00:00:00Z")
    assert (await context.run_json("verify", "--generation", str(number)))["equal"]
    await context.spoil(contest, number)
    wrong = await context.run_json("verify", "--generation", str(number), code=1)
    assert {one["contest"] for one in wrong["differences"]} == {contest.key}
    assert (await context.run_json("verify"))["equal"]


async def test_they_are_previewed_and_what_is_not_there_is_said_so(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    preview = await context.run_json("replay", "run", "--until", "2100-01-01T00:00:00Z")
    assert set(preview["events"]) == {"catalogue", "test", "votes", "purchases"}
    assert preview["events"]["votes"] > 0
    assert not any(one.others for one in (await context.generations().read_all()).values())
    for command in (["verify"], ["count", contest.key]):
        missing = await context.run(*command, "--generation", "999")
        assert missing.exit_code == 2
        assert "Generation 999 of the votes not found" in missing.stderr
    both = await context.run("count", contest.key, "--generation", "1", "--at", "2020-01-01T00:00:00Z")
    assert both.exit_code == 2


async def test_a_position_of_the_votes_says_nothing_of_other_topics(context: ReplayContext) -> None:
    done = await context.run("replay", "run", "--projection", "catalogue", "--to-position", "0.1")
    assert done.exit_code == 2
