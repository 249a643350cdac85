"""Contests and participants in commands: found by title, and shown with titles beside their keys."""

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner, Result

from libs.local_stack.supervisor import Supervisor
from services.cli.__main__ import app
from tests.support.eventually import eventually
from tests.support.voting import Api, Contest, hours_from_now, new_id


async def run(stack: Supervisor, *arguments: str) -> Result:
    """As a process of its own would: not on this test's event loop."""
    words = [*arguments, "--data-dir", str(stack.data_dir)]
    return await asyncio.to_thread(CliRunner().invoke, app, words)


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
    counted = await run(stack, "count", title.upper(), "--json")
    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["record"]["contest_key"] == contest.key
    other = await entitled(api, title)
    for words in (("count",), ("verify",), ("void", "run"), ("sources", "list")):
        refused = await run(stack, *words, title, *(["--all"] if "run" in words else []))
        assert refused.exit_code == 2, words
        assert contest.key in "".join(refused.stderr.replace("│", "").split())
        assert other.key in "".join(refused.stderr.replace("│", "").split())
    assert (await run(stack, "count", contest.key)).exit_code == 0


async def test_titles_stand_beside_keys_wherever_a_contest_or_participant_is_named(
    api: Api, stack: Supervisor, tmp_path: Path
) -> None:
    title = f"Final {new_id()[:8]}"
    contest = await entitled(api, title)
    both, first = f"{title} ({contest.key})", contest.participants[0]
    for words in (("count",), ("verify",), ("log",), ("sources", "list"), ("void", "run")):
        shown = await run(stack, *words, contest.key, *(["--all"] if "run" in words else []))
        assert both in shown.output, (words, shown.output)
        assert "sources" in words or ("Participant 0" in shown.stdout and first in shown.stdout), words
    written = [line for line in (await run(stack, "log", "--audit")).stdout.splitlines() if contest.key in line]
    assert f"title={title}" in written[-1]
    await run(stack, "void", "run", contest.key, "--all", "--execute")
    assert title in (await run(stack, "void", "list", contest.key)).stdout
    await close(contest)
    for words in (("seal",), ("seal", "--execute"), ("certificate", "show")):
        shown = await run(stack, *words, contest.key)
        assert both in shown.stdout, (words, shown.output)
        assert "Participant 0" in shown.stdout
    certificate = tmp_path / "certificate.json"
    certificate.write_text((await run(stack, "certificate", "show", contest.key, "--json")).stdout)
    assert both in (await run(stack, "certificate", "verify", str(certificate))).stdout
    assert title in (await run(stack, "status", "--all")).stdout
    assert both in (await run(stack, "unseal", contest.key, "--execute")).stdout
    assert both in (await run(stack, "reopen", contest.key, "--end", hours_from_now(1))).stdout


async def test_contests_are_listed_with_their_counts_and_phases(api: Api, stack: Supervisor) -> None:
    title = f"Listed {new_id()[:8]}"
    contest = await entitled(api, title)

    async def is_listed() -> bool:
        listed = json.loads((await run(stack, "contests", "--json")).stdout)["contests"]
        (row,) = [one for one in listed if one["key"] == contest.key]
        assert (row["title"], row["state"], row["account"]) == (title, "running", "dev")
        return bool((row["votes"], row["voters"]) == (1, 1))

    await eventually(is_listed)
    assert title in (await run(stack, "contests", "--account", "dev")).stdout
    assert title not in (await run(stack, "contests", "--account", "other")).stdout
    refused = await run(stack, "reopen", title, "--end", hours_from_now(1))
    assert refused.exit_code == 1
    assert f"{title} ({contest.key}) is not closed" in refused.stderr
