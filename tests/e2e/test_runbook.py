"""Each problem of the runbook that is rare, caused on real servers, and ended as its part of the runbook says."""

import asyncio
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.local_stack import valkey
from libs.local_stack.ports import free_ports
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from libs.monitoring import health_problems, lag
from libs.tally.events import LogLost, VoteCast
from libs.views.generations.generations import ProjectionName
from libs.views.valkey.client import Valkey
from libs.views.votes.votes_apply_items import fold_item
from services.cli.deployment_discovery import addresses_in
from tests.support.builders.contests import a_cast
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.purchases_over_http import becomes, bought, purchase, send
from tests.support.clients.retried import final_answer
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api, Contest, new_id
from tests.support.eventually import eventually
from tests.support.programs import FAKETIME, Programs
from tests.support.servers.frozen_process import stopped
from tests.support.servers.own_stack import open_own_stack
from tests.support.servers.versions import OTHER_LAYOUT, functions_of_another_version

pytestmark = pytest.mark.slow

VOTERS = [f"voter {number}" for number in range(8)]


@pytest.fixture(scope="module")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Services of this file, which each test leaves well."""
    async with open_own_stack(servers, tmp_path_factory.mktemp("stack")) as supervisor:
        yield supervisor


@pytest.fixture
async def own_stack(servers: Servers, tmp_path: Path) -> AsyncIterator[Supervisor]:
    """Services of one test, which are not well afterwards."""
    async with open_own_stack(servers, tmp_path / "stack") as supervisor:
        yield supervisor


@pytest.fixture
async def own_api(own_stack: Supervisor) -> AsyncIterator[Api]:
    async with development_client(own_stack.stack) as client:
        yield Api(client)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a status name at once what it names after seconds, or a minute."""
    monkeypatch.setattr(lag, "STALLED_MS", 200)
    monkeypatch.setattr(health_problems, "OLDEST_PENDING_S", 0.2)
    monkeypatch.setattr(health_problems, "OPEN_PURCHASE_S", 0.2)


async def problems(stack: Supervisor) -> dict[str, str]:
    """Return the details of the problems that `tally status` names, by kind; its exit code says the same."""
    done = await tally(stack, "status", "--json")
    found = {problem["kind"]: problem["detail"] for problem in orjson.loads(done.stdout)["problems"]}
    assert done.exit_code == (3 if "away" in found else 1 if found else 0), done.output
    return found


async def named(stack: Supervisor, *kinds: str, only: bool = False) -> dict[str, str]:
    """Wait until all of `kinds` are named, and with `only` no others; return all problems."""

    async def look() -> dict[str, str]:
        found = await problems(stack)
        assert found.keys() >= {*kinds}, found
        assert not only or found.keys() == {*kinds}, found
        return found

    return await eventually(look)


async def is_well(stack: Supervisor, besides: Mapping[str, str] | None = None) -> None:
    """Wait until no problems are named, `besides` these."""

    async def look() -> bool:
        assert await problems(stack) == (besides or {})
        return True

    await eventually(look)


async def noted(stack: Supervisor, *parts: str) -> None:
    """Wait until no problems are named, and notes that contain these parts, one each."""

    async def look() -> bool:
        notes = [note for note in (await tally_json(stack, "status"))["notes"] if "restarts so far" not in note]
        assert len(notes) == len(parts), notes
        assert all(part in note for part, note in zip(parts, notes, strict=True)), notes
        return True

    await eventually(look)


async def votes(contest: Contest, when: str) -> list[httpx.Response]:
    """Cast a vote of each of `VOTERS`, who are others at another time."""
    answers = []
    for voter in VOTERS:
        send = partial(contest.vote, 0, f"{voter} {when}", vote_id=new_id())
        answers.append(await final_answer(send))
    assert {answer.status_code for answer in answers} <= {201, 200}, "200: recorded, but answered with 503"
    return answers


async def counted(contest: Contest) -> int:
    return sum(participant["count"] for participant in (await contest.counts())["participants"].values())


@asynccontextmanager
async def served(*words: str | Path) -> AsyncIterator[None]:
    """Run `tally serve` as an operator pastes it, without a setting that names a server."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.cli", "serve", *words, env=own)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def keys_of(valkey: Valkey, stack: Supervisor, part: str = "") -> list[bytes]:
    """Return the deployment's keys whose names contain `part`."""
    cursor, found = b"0", list[bytes]()
    while True:
        pattern = f"{stack.stack['namespace']}*{part}*"
        cursor, page = await valkey.call("SCAN", cursor, "MATCH", pattern, "COUNT", 500)
        found += page
        if cursor == b"0":
            return found


async def test_lost_records_are_named_and_the_service_comes_back_without_them(
    own_stack: Supervisor, own_api: Api
) -> None:
    """The view has folded votes that its log does not have, as after a power cut."""
    contest = await own_api.contest()
    await contest.counts_with(*await votes(contest, "before"))
    pids = own_stack.pids
    async with Deployment(addresses_in(own_stack.stack)) as deployment:
        views, partition = deployment.vote_views, 0
        state = await views.state(partition)
        end = state.position.offset
        lost = [
            a_cast(contest.participants[0], contest=contest.key, voter=voter, incarnation=state.incarnation)
            for voter in ("one", "another")
        ]
        items = [fold_item(event, end + number, 0) for number, event in enumerate(lost)]
        await views.apply_items(partition, state.position, items, end + len(items))
        await eventually(lambda: is_named(own_stack, "the log lost 2 acknowledged records"))
        [loss] = (await tally_json(own_stack, "lost", "list"))["losses"]
        assert (loss["topic"], loss["partition"], loss["first"], loss["records"]) == ("votes", partition, end, 2)
        listed = (await tally_json(own_stack, "lost", "votes"))["votes"]
        assert {(vote["voter"], vote["offset"]) for vote in listed} == {
            (event.voter, end + number) for number, event in enumerate(lost)
        }
        told = await eventually(lambda: what_is_told(deployment, partition, end))
        assert told is not None
        assert told.votes == ((contest.key, 2),)
    await eventually(lambda: not {*pids.values()} & {*own_stack.pids.values()})  # none remembers the lost records
    await contest.counts_with(*await votes(contest, "after"))
    assert await counted(contest) == 2 * len(VOTERS)
    assert (await tally(own_stack, "verify")).exit_code == 0
    assert (await tally(own_stack, "lost", "acknowledge", "--execute")).exit_code == 0
    await is_well(own_stack)


async def is_named(stack: Supervisor, detail: str) -> bool:
    return (await problems(stack)).get("lost", "").startswith(detail)


async def what_is_told(deployment: Deployment, partition: int, offset: int) -> LogLost | None:
    """Return the event that tells of a loss, once it is in the log."""
    reader, topic = deployment.reader, deployment.votes.name
    end = (await reader.end_offsets(topic, [partition]))[partition]
    async with aclosing(reader.records(topic, {partition: Extent(offset, end)})) as batches:
        events = [vote_codec.decode(record.value) async for _, records in batches for record in records]
    return next((event for event in events if isinstance(event, LogLost)), None)


async def test_layout_of_another_version_is_named_and_ends_with_a_rebuilding_by_the_version_to_keep(
    stack: Supervisor, api: Api, tmp_path: Path
) -> None:
    contest = await api.contest()
    await contest.counts_with(*await votes(contest, "before"))
    with functions_of_another_version(tmp_path / "newer", OTHER_LAYOUT):
        found = await named(stack, "layout", only=True)
        assert found["layout"].endswith("while this version reads 99")
        assert "layout: votes all" in (await tally(stack, "doctor")).stdout
        assert (await tally(stack, "replay", "run", "--outdated", "--execute")).exit_code == 0
        await named(stack, "gate", "part", only=True)  # it runs no projector, and those that run wait
    assert (await named(stack, "layout"))["layout"].startswith("written in layout 99, ")
    assert (await tally(stack, "replay", "run", "--outdated", "--execute")).exit_code == 0
    await noted(stack, "another version's layout")
    assert (await tally(stack, "replay", "drop", "--execute")).exit_code == 0
    await contest.counts_with(*await votes(contest, "after"))
    await noted(stack)


async def test_stalled_and_pending_votes_are_settled_by_one_more_projector(stack: Supervisor, api: Api) -> None:
    """The projector hangs; what `tally serve projector` needs to know, it finds by the data directory."""
    contest, pid = await api.contest(), stack.pids["projector"]
    hangs = {"part": f"process {pid} does not answer"}
    with stopped(pid):
        await votes(contest, "waiting")
        found = await named(stack, "stalled", "pending", "part")
        assert "a vote is pending for" in found["pending"]
        assert found["part"] == hangs["part"]
        async with served("projector", "--data-dir", stack.data_dir):
            await is_well(stack, besides=hangs)
            assert await counted(contest) == len(VOTERS)
    await is_well(stack)


async def test_purchase_under_a_lost_secret_is_cast_once_the_secret_is_back(stack: Supervisor, api: Api) -> None:
    contest = await api.contest()
    await bought(contest, 2)
    exported = stack.data_dir / "export"
    assert (await tally(stack, "export", "--to", exported)).exit_code == 0
    secret = stack.data_dir / "objects" / "secrets" / "accounts" / stack.stack["account"]
    await stack.kill("projector", restart=False)
    secret.unlink()
    lost = purchase(contest, 3)
    assert (await api.client.post("/operations/purchases", json=lost)).status_code == 503
    await stack.restart("projector")
    assert "neither cast nor refused" in (await named(stack, "purchase"))["purchase"]

    async def is_logged() -> bool:
        return "recorded under another secret" in (stack.data_dir / "logs" / "projector.log").read_text()

    await eventually(is_logged)
    backup = orjson.loads((exported / "secrets.json").read_bytes())
    secret.write_bytes(b64decode(backup[f"secrets/accounts/{secret.name}"]))
    await is_well(stack)
    assert (await becomes(api.client, await send(api.client, lost), "cast"))["vote"]["count"] == 3


async def test_overruled_votes_are_named_by_the_commands_of_the_report(
    own_stack: Supervisor, own_api: Api
) -> None:
    contest = await own_api.contest()
    await contest.counts_with(await contest.vote(0, "greedy"))
    async with Deployment(addresses_in(own_stack.stack)) as deployment:
        await deployment.find_topics()
        await deployment.start_writer()
        [topic] = deployment.votes.topics
        ends = await deployment.reader.end_offsets(topic.name, topic.numbers)
        ranges = {partition: Extent(0, end) for partition, end in ends.items()}
        async with aclosing(deployment.reader.records(topic.name, ranges)) as batches:
            [(partition, cast)] = [
                (partition, event)
                async for partition, records in batches
                for event in vote_codec.decode_many([record.value for record in records])
                if isinstance(event, VoteCast)
            ]
        event = replace(cast, vote_id="beyond the limit")
        await deployment.writer.append(topic.name, partition, vote_codec.encode(event), b"")
    assert (await named(own_stack, "overruled"))["overruled"] == "accepted votes that do not count: 1"
    verified = await tally(own_stack, "verify")
    assert verified.exit_code == 0
    assert "2 vote ids = 1 counted + 1 overruled" in verified.stdout
    assert contest.key in verified.stdout
    logged = (await tally(own_stack, "log", contest.key)).stdout
    assert "overruled" in next(line for line in logged.splitlines() if "beyond the limit" in line)


async def test_a_broken_generation_is_dropped_while_another_one_serves(stack: Supervisor, api: Api) -> None:
    contest = await api.contest()
    await contest.counts_with(*await votes(contest, "before"))
    async with Deployment(addresses_in(stack.stack)) as deployment:
        former = (await deployment.projections[ProjectionName.VOTES].read(0)).live.number
        assert (await tally(stack, "replay", "run", "--projection", "votes", "--execute")).exit_code == 0
        for key in await keys_of(deployment.valkey, stack, f":g{former}:voters:"):
            await deployment.valkey.call("SET", key, "damaged")
    await contest.counts_with(*await votes(contest, "after"))
    found = await named(stack, "generation", only=True)
    assert found == {"generation": f"generation {former} is broken: it cannot process further records"}
    assert (await tally(stack, "verify")).exit_code == 0
    assert (await tally(stack, "replay", "drop", "--generation", str(former), "--execute")).exit_code == 0
    await is_well(stack)
    assert await counted(contest) == 2 * len(VOTERS)


async def test_clock_of_valkey_that_stepped_is_named_and_ends_when_it_is_corrected(
    servers: Servers, programs: Programs, tmp_path: Path
) -> None:
    faketime, offset = programs.path(FAKETIME), tmp_path / "offset"
    offset.write_text("+0")
    async with (
        valkey_with_clock(faketime, offset, tmp_path / "valkey") as address,
        open_own_stack(servers, tmp_path / "stack", valkey_url=address) as stack,
        development_client(stack.stack) as client,
    ):
        contest = await Api(client).contest()
        await is_well(stack)
        offset.write_text("+60")
        answers = await votes(contest, "meanwhile")
        found = await named(stack, "clock")
        assert "s ahead of this machine's" in found["clock"]
        assert "problem  clock: Valkey's is off by +" in (await tally(stack, "doctor")).stdout
        offset.write_text("+0")
        await is_well(stack)
        assert "ok       clock" in (await tally(stack, "doctor")).stdout
        await contest.counts_with(*answers, *await votes(contest, "after"))
        assert await counted(contest) == 2 * len(VOTERS)
        assert (await tally(stack, "verify")).exit_code == 0


@asynccontextmanager
async def valkey_with_clock(faketime: str, offset: Path, directory: Path) -> AsyncIterator[str]:
    """Run a Valkey whose clock is off by what the file `offset` holds, and yield its address."""
    shown = await asyncio.create_subprocess_exec(
        faketime, "-f", "+0", "printenv", "LD_PRELOAD", stdout=asyncio.subprocess.PIPE
    )
    library, _ = await shown.communicate()
    faked = {"FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
    await asyncio.to_thread(directory.mkdir)
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        str(valkey.find()), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", "",
        "--appendonly", "yes", "--maxmemory-policy", "noeviction", stdout=asyncio.subprocess.DEVNULL,
        env=os.environ | faked | {"LD_PRELOAD": library.decode().strip()},
    )  # fmt: skip
    address = f"redis://127.0.0.1:{port}/0"
    try:
        await eventually(lambda: valkey.answers(address))
        yield address
    finally:
        process.kill()
        await process.wait()
