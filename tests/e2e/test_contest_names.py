"""Contests and participants in commands: found by title, and shown with titles beside their keys."""

from pathlib import Path

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


async def close(contest: Contest) -> None:
    assert (await contest.change(end=hours_from_now(-1 / 3600))).status_code == 200

    async def is_final() -> bool:
        answer = await contest.client.get(f"{contest.path}/vote_updates/")
        return bool(answer.headers["tally-final"] == "final")

    await eventually(is_final)


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


async def test_titles_stand_beside_keys_wherever_a_contest_or_participant_is_named(
    api: Api, stack: Supervisor, tmp_path: Path
) -> None:
    title = f"Final {new_id()[:8]}"
    contest = await entitled(api, title)
    both, first = f"{title} ({contest.key})", contest.participants[0]
    for words in (("count",), ("verify",), ("log",), ("sources", "list"), ("void", "run")):
        shown = await tally(stack, *words, contest.key, *(["--all"] if "run" in words else []))
        assert both in shown.output, (words, shown.output)
        assert "sources" in words or ("Participant 0" in shown.stdout and first in shown.stdout), words
    written = [line for line in (await tally(stack, "log", "--audit")).stdout.splitlines() if contest.key in line]
    assert f"title={title}" in written[-1]
    await tally(stack, "void", "run", contest.key, "--all", "--execute")
    assert title in (await tally(stack, "void", "list", contest.key)).stdout
    await close(contest)
    for words in (("seal",), ("seal", "--execute"), ("certificate", "show")):
        shown = await tally(stack, *words, contest.key)
        assert both in shown.stdout, (words, shown.output)
        assert "Participant 0" in shown.stdout
    certificate = tmp_path / "certificate.json"
    certificate.write_text((await tally(stack, "certificate", "show", contest.key, "--json")).stdout)
    assert both in (await tally(stack, "certificate", "verify", str(certificate))).stdout
    assert title in (await tally(stack, "status", "--all")).stdout
    assert both in (await tally(stack, "unseal", contest.key, "--execute")).stdout
    assert both in (await tally(stack, "reopen", contest.key, "--end", hours_from_now(1))).stdout


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
