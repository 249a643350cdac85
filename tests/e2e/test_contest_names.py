"""Contests and participants in commands: found by title, and shown with titles beside their keys."""

from libs.local_stack.supervisor import Supervisor
from tests.support.commands import tally, tally_json
from tests.support.eventually import eventually
from tests.support.voting import Api, Contest, hours_from_now, new_id


async def entitled(api: Api, title: str) -> Contest:
    contest = await api.contest()
    changed = await api.client.patch(contest.path, json={"title": title})
    assert changed.status_code == 200, changed.text
    assert (await contest.vote(0, "ann")).status_code == 201
    return contest


async def test_a_contest_is_named_by_its_title_where_only_one_has_it(api: Api, stack: Supervisor) -> None:
    title = f"Grand final {new_id()[:8]}"
    contest = await entitled(api, title)
    assert (await tally_json(stack, "count", title.upper()))["record"]["contest_key"] == contest.key
    other = await entitled(api, title)
    for words in (("count",), ("verify",), ("void", "run"), ("sources", "list")):
        refused = await tally(stack, *words, title, *(["--all"] if "run" in words else []))
        assert refused.exit_code == 2, words
        assert contest.key in "".join(refused.stderr.replace("│", "").split())
        assert other.key in "".join(refused.stderr.replace("│", "").split())
    assert (await tally(stack, "count", contest.key)).exit_code == 0


async def test_contests_are_listed_with_their_counts_and_phases(api: Api, stack: Supervisor) -> None:
    title = f"Listed {new_id()[:8]}"
    contest = await entitled(api, title)

    async def is_listed() -> bool:
        listed = (await tally_json(stack, "contests"))["contests"]
        (row,) = [one for one in listed if one["key"] == contest.key]
        assert (row["title"], row["state"], row["account"]) == (title, "running", "dev")
        return bool((row["votes"], row["voters"]) == (1, 1))

    await eventually(is_listed)
    assert title in (await tally(stack, "contests", "--account", "dev")).stdout
    assert title not in (await tally(stack, "contests", "--account", "other")).stdout
    refused = await tally(stack, "reopen", title, "--end", hours_from_now(1))
    assert refused.exit_code == 1
    assert f"{title} ({contest.key}) is not closed" in refused.stderr
