"""Sealed contests, verified from the log or an export alone, with proofs for voters' receipts."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from libs.audit.sealed_contest import ServedLog
from libs.certificates.builder import Batches
from libs.certificates.service import LEAVES
from libs.local_stack.supervisor import Supervisor
from libs.storage.object_store import open_store
from services.cli.deployment_discovery import find_addresses
from tests.support.clients import commands
from tests.support.clients.commands import run
from tests.support.clients.sources import Source, a_source
from tests.support.clients.voting import Api, Contest, code, hours_from_now, running
from tests.support.eventually import eventually

FIGURES = ("count", "unique_voter_count", "anonymous_voter_count")
Tally = Callable[..., Awaitable[Result]]


@pytest.fixture
def tally(stack: Supervisor) -> Tally:
    """The command, on the stack."""
    return partial(commands.tally, stack)


async def sealed(tally: Tally, contest: Contest) -> dict[str, Any]:
    """The certificate of a contest that has ended."""
    done = await tally("seal", contest.key, "--execute", "--json")
    return commands.printed(done)["certificate"]


async def kept(tally: Tally, contest: Contest, into: Path, seq: int = 1) -> Path:
    """The certificate as a file."""
    shown = await tally("certificate", "show", contest.key, "--seq", str(seq), "--json")
    assert shown.exit_code == 0, shown.output
    file = into / f"{contest.key}-{seq}.json"
    file.write_text(shown.output)
    return file


async def all_kinds(api: Api) -> Contest:
    """A rating contest with a replaced, a removed and an anonymous rating, a rejected participant, a source."""
    body = running(is_anonymous_voting_enabled=True) | {"contest_type": "rating"}
    contest = await api.contest(participants=3, body=body)
    sms = Source(contest, "sms")
    await sms.map("A", "", "C")
    await contest.rate(0, 5)
    await contest.rate(0, 3)
    removed = await contest.rate(1, 2)
    await contest.rate(1, 4, anonymous_id="guest")
    await contest.rate(2, 1, voter="v2")
    assert (await contest.remove(removed)).status_code == 204
    counts = [{"mapped_id": "A", "count": 7, "unique_voter_count": 5, "anonymous_voter_count": 1}]
    counts.append({"mapped_id": "C", "count": 70, "unique_voter_count": 50, "anonymous_voter_count": 10})
    assert (await sms.send(counts=counts)).status_code == 202
    rejected = await api.client.patch(f"/participants/{contest.participants[2]}", json={"status": "rejected"})
    assert rejected.status_code == 200
    return contest


@pytest.mark.secured
async def test_a_sealed_contest_is_reopened_only_when_it_was_unsealed_and_seals_again(
    api: Api, tally: Tally, tmp_path: Path
) -> None:
    contest = await api.contest()
    await contest.vote(0)
    order = {"running_order": contest.participants[1::-1]}
    assert (await api.client.patch(contest.path, json=order)).status_code == 200
    assert (await tally("seal", contest.key)).exit_code == 1
    await contest.end(final=False)
    preview = await tally("seal", contest.key)
    assert (preview.exit_code, "--execute" in preview.output) == (0, True), preview.output
    unsealed = await tally("certificate", "show", contest.key)
    assert (unsealed.exit_code, unsealed.stderr) == (1, "Error: The contest was never sealed.\n")
    assert (await tally("unseal", contest.key, "--execute")).exit_code == 1
    first = await sealed(tally, contest)
    assert (first["seq"], first["result"]["count"], first["sha256"] in preview.output) == (1, 1, True)
    assert await sealed(tally, contest) == first
    reopening = f"/contests/{contest.key}/reopen"
    assert code(await api.client.post(reopening, json={"end": hours_from_now(1)})) == (409, "contest_final")
    refused = await tally("reopen", contest.key, "--end", hours_from_now(1), "--execute")
    assert (refused.exit_code, "unseal it first" in refused.output) == (1, True)
    record = (await api.client.get(contest.path)).json()
    assert {"seal", "closing"}.isdisjoint(record)
    assert code(await api.client.patch(contest.path, json={"seal": None})) == (422, "validation_failed")
    assert "sealed with it" in (await tally("certificate", "show", contest.key)).output
    await titles_swapped_after_the_end(api, tally, contest)
    await order_changed_after_the_end(api, tally, contest, first)
    assert "--execute" in (await tally("unseal", contest.key)).output
    assert code(await api.client.post(reopening, json={"end": hours_from_now(1)})) == (409, "contest_final")
    assert (await tally("unseal", contest.key, "--execute")).exit_code == 0
    assert "unsealed later" in (await tally("certificate", "show", contest.key)).output
    assert (await api.client.post(reopening, json={"end": hours_from_now(1)})).status_code == 200
    assert (await contest.vote(1, voter="v2")).status_code == 201
    await contest.end(final=False)
    second = await eventually(partial(sealed, tally, contest), every_s=0.5)
    assert (second["seq"], second["result"]["count"]) == (2, 2)
    for seq, certificate in ((1, first), (2, second)):
        file = await kept(tally, contest, tmp_path, seq)
        assert json.loads(file.read_text()) == certificate
        checked = await tally("certificate", "verify", file)
        assert checked.exit_code == 0, checked.output


async def order_changed_after_the_end(
    api: Api, tally: Tally, contest: Contest, certificate: dict[str, Any]
) -> None:
    """The certificate binds the order of the end, which results keep; a later one is shown beside them."""
    before = [each["participant_key"] for each in certificate["participants"]]
    assert before == [contest.participants[1], contest.participants[0]]
    after = before[::-1]
    assert (await api.client.patch(contest.path, json={"running_order": after})).status_code == 200
    public = (await api.client.get(f"/public{contest.path}/results")).json()
    assert [each["participant_key"] for each in public["participants"]] == before
    [correction] = [each for each in public["corrections"] if each["member"] == "running_order"]
    assert (correction["participant_key"], correction["before"], correction["after"]) == (None, before, after)
    entrants = (await api.client.get(f"/public{contest.path}")).json()["participants"]
    assert [each["participant_key"] for each in entrants] == before
    shown = await tally("certificate", "show", contest.key)
    assert f"the contest has the order {', '.join(after)} (before: {', '.join(before)})" in shown.output


async def titles_swapped_after_the_end(api: Api, tally: Tally, contest: Contest) -> None:
    """Results and certificate name those who were voted for; what was changed is shown beside them."""
    keys = contest.participants[:2]
    first, second = [(await api.client.get(f"/participants/{key}")).json().get("title") for key in keys]
    for key, title in zip(keys, ("Second", "First"), strict=True):
        assert (await api.client.patch(f"/participants/{key}", json={"title": title})).status_code == 200
    assert (await api.client.patch(contest.path, json={"title": "Over"})).status_code == 200
    shown = (await api.client.get(f"{contest.path}/vote_updates/", params={"details": "true"})).json()
    assert [shown["participants"][key]["title"] for key in keys] == [first, second]
    public = (await api.client.get(f"/public{contest.path}/results")).json()["corrections"]
    own = {each.pop("corrected_by").partition(" ")[0] for each in shown["corrections"] if each.pop("title") != ""}
    assert (own, public) == ({"key"}, shown["corrections"])
    befores = {each["participant_key"]: each["before"] for each in shown["corrections"]}
    assert befores == {None: shown["title"], keys[0]: first, keys[1]: second}
    # a later change of anything else is no correction of the title
    assert (await api.client.patch(f"/participants/{keys[0]}", json={"story": "More"})).status_code == 200
    later = (await api.client.get(f"/public{contest.path}/results")).json()["corrections"]
    assert later == public
    corrected = {each["participant_key"]: each["after"] for each in shown["corrections"]}
    assert (shown["title"] != "Over", corrected) == (True, {None: "Over", keys[0]: "Second", keys[1]: "First"})
    output = (await tally("certificate", "show", contest.key)).output
    assert ("called Over." in output, "called First." in output, "Corrected on " in output) == (True, True, True)


@pytest.mark.secured
async def test_what_is_certified_is_what_readers_see_and_an_export_confirms_it(
    api: Api, tally: Tally, tmp_path: Path
) -> None:
    contest = await all_kinds(api)
    await contest.end(final=False)
    certificate = await sealed(tally, contest)
    shown, result = await contest.counts(), certificate["result"]
    assert [result[name] for name in FIGURES] == [shown[name] for name in FIGURES]
    assert {one["participant_key"] for one in result["participants"]} == set(contest.participants[:2])
    for one in result["participants"]:
        read = shown["participants"][one["participant_key"]]
        assert [one[name] for name in FIGURES] == [read[name] for name in FIGURES]
        assert one["rating"]["total"] == read["rating"]["sum"] * 1_000_000
        assert [(of["source"], of["count"]) for of in one["sources"]] == [
            (of["source"], of["count"]) for of in read["vote_sources"]
        ]
    file, export = await kept(tally, contest, tmp_path), tmp_path / "export"
    assert (await tally("export", "--to", export, "--no-secrets")).exit_code == 0
    confirmed = await run("certificate", "verify", file, "--export", export)
    assert confirmed.exit_code == 0, confirmed.output
    independent = tmp_path / "verify_certificate.py"
    assert (await run("certificate", "verifier", "--out", independent)).exit_code == 0
    assert _runs_alone(independent, file, export) == (0, certificate["sha256"])
    one_vote_changed(export, contest)
    assert _runs_alone(independent, file, export)[0] == 2
    denied = await run("certificate", "verify", file, "--export", export)
    assert (denied.exit_code, "/root: certificate says" in denied.output) == (1, True), denied.output
    assert "/result/rating/total: certificate says" in denied.output
    forged = tmp_path / "forged.json"
    forged.write_text(file.read_text().replace('"rank":1', '"rank":2'))
    found = await tally("certificate", "verify", forged)
    assert (found.exit_code, "changed" in found.output) == (1, True)
    assert "/rank: certificate says 2" in found.output
    forged.write_text(file.read_text().replace('"status":"rejected"', '"status":"pending"'))
    assert "/participants/2/status: certificate says" in (await tally("certificate", "verify", forged)).output
    forged.write_text("{}")
    assert (await tally("certificate", "verify", forged)).exit_code == 2


def _runs_alone(verifier: Path, file: Path, export: Path) -> tuple[int, str]:
    """Return the exit code of the independent verifier, and the last word of its output."""
    command = [sys.executable, "-I", "-S", str(verifier), str(file), "--export", str(export)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()[-1]


def one_vote_changed(export: Path, contest: Contest) -> None:
    """The rating of three stars has four."""
    for file in export.glob("votes-*.ndjson"):
        text = file.read_text()
        lines = [line for line in text.splitlines() if contest.key in line and '"rating":{"value":3000000' in line]
        for line in lines:
            file.write_text(text.replace(line, line.replace('"value":3000000', '"value":4000000')))
            return
    raise AssertionError("there is no such rating")


async def test_sealing_ends_the_grace_of_external_sources(api: Api, tally: Tally) -> None:
    sms = await a_source(api, "A")
    await sms.contest.end(final=False)
    preview = await tally("seal", sms.contest.key, "--json")
    shown = json.loads(preview.output)
    assert shown.pop("titles")["title"] == "Final"
    assert shown == {
        "contest_key": sms.contest.key,
        "executed": False,
        "reporting": ["sms"],
        "certificate": None,
        "corrections": [],
    }
    assert await sms.counted(await sms.report(A=4)) == [4, 0]
    certificate = await sealed(tally, sms.contest)
    assert certificate["result"]["count"] == 4
    answer = await sms.contest.client.get(f"{sms.contest.path}/vote_updates/")
    assert (answer.headers["tally-final"], answer.json()["count"]) == ("final", 4)
    assert code(await sms.send(counts=[{"mapped_id": "A", "count": 9}])) == (409, "contest_final")
    assert (await sealed(tally, sms.contest))["sha256"] == certificate["sha256"]


async def test_a_receipt_proves_its_vote_offline(api: Api, tally: Tally, tmp_path: Path) -> None:
    contest = await api.contest()
    votes = [await contest.vote(at % 2, voter=f"v{at}") for at in range(7)]
    await contest.remove(votes[5], voter="v5")
    await contest.end(final=False)
    await sealed(tally, contest)
    certificate, file = await kept(tally, contest, tmp_path), tmp_path / "proof.json"
    for at, said in ((4, "counted"), (5, "as removed")):
        made = await tally("certificate", "prove", contest.key, votes[at].json()["receipt"], "--out", file)
        assert (made.exit_code, said in made.output) == (0, True), made.output
        checked = await run("certificate", "check", file, certificate)
        assert (checked.exit_code, said in checked.output) == (0, True), checked.output
    proof = json.loads(file.read_text())
    assert all(key not in file.read_text() for key in contest.participants)
    for changed in ({"became": "counted"}, {"receipt": votes[4].json()["receipt"]}):
        file.write_text(json.dumps(proof | changed))
        assert (await run("certificate", "check", file, certificate)).exit_code == 1
    for receipt in (votes[0].json()["receipt"][:-1], "-"):
        assert (await tally("certificate", "prove", contest.key, receipt)).exit_code == 1


async def test_a_proof_is_made_of_the_leaves_that_were_kept_or_else_of_the_log(
    api: Api, stack: Supervisor, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = await api.contest()
    vote = (await contest.vote(voter="v")).json()
    await contest.end(final=False)
    await sealed(tally, contest)
    reads: list[int] = []
    read = ServedLog.votes

    def noted(log: ServedLog, partition: int) -> Batches:
        reads.append(partition)
        return read(log, partition)

    monkeypatch.setattr(ServedLog, "votes", noted)

    async def prove() -> bool:
        reads.clear()
        made = await tally("certificate", "prove", contest.key, vote["receipt"])
        assert made.exit_code == 0, made.output
        return bool(reads)

    assert not await prove()
    store = open_store(find_addresses(stack.data_dir).storage_url)
    for name in await store.names(f"{LEAVES}/{contest.key}"):
        await store.replace(name, b"0 counted receipt forged\n")
    assert await prove()


async def test_a_certificate_that_was_changed_where_it_is_kept_is_not_sealed_over(
    api: Api, stack: Supervisor, tally: Tally
) -> None:
    contest = await api.contest(participants=1)
    await contest.end(final=False)
    await sealed(tally, contest)
    forge_what_is_kept(find_addresses(stack.data_dir).storage_url, contest)
    for command in (["seal", contest.key, "--execute"], ["certificate", "show", contest.key]):
        loud = await tally(*command)
        assert (loud.exit_code, "was changed" in loud.output) == (1, True), loud.output


def forge_what_is_kept(storage_url: str, contest: Contest) -> None:
    [file] = Path(storage_url.removeprefix("file://")).glob(f"certificates/{contest.key}/*")
    file.write_text(file.read_text().replace('"count":0', '"count":1'))
