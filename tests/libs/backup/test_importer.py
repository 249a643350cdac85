"""`tally import`: identical logs in another namespace, or an error before any change."""

import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from libs.backup.importer import import_logs
from libs.catalogue.api_keys import list_keys
from libs.contracts.codec import vote_codec
from libs.contracts.ndjson_codec import json_form
from libs.deployment.deployment import Deployment, Progress
from libs.kafka.topics import find_topics
from libs.storage.object_store import Store, find_store_id
from libs.storage.secret_rings import read_ring
from libs.storage.secrets import contest_secret
from libs.tally.events import ContestClosed, Event, Fence
from libs.tally.voter_ledger import VoteStatus
from tests.libs.backup.filled_deployment import PARTITIONS, Site, complaint, edited
from tests.libs.views.random_logs import POISON, UNFOLDABLE, a_log
from tests.simulation.comparison import Table, described_view
from tests.support.builders.catalogue import open_catalogue
from tests.support.builders.contests import a_cast, a_removal, a_report, a_void
from tests.support.builders.folded_log import folded_log
from tests.support.eventually import eventually
from tests.support.servers.deployments import compare


@pytest.fixture(scope="module")
async def out(filled: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole export of `filled`; it does not change."""
    directory = tmp_path_factory.mktemp("exports") / "out"
    await filled.export(directory)
    return directory


@pytest.fixture
def copy(out: Path, tmp_path: Path) -> Path:
    """The same, to be spoilt."""
    return Path(shutil.copytree(out, tmp_path / "copy"))


async def exists(target: Site) -> bool:
    """Return whether anything of the target exists."""
    topics = [topic for log in target.logs.values() for topic in log.topics]
    return bool(await find_topics(target.stack.kafka_settings, topics) or await target.store.names("secrets"))


async def test_every_record_lies_where_it_lay_and_what_follows_bears_the_brokers_time(
    filled: Site, target: Site, out: Path
) -> None:
    summary = await target.import_from(out, "--execute")
    assert summary == {
        "executed": True,
        "namespace": target.stack.namespace,
        "exported_namespace": filled.stack.namespace,
        "exported_at": summary["exported_at"],
        "records": 36,
        "present": 0,
        "secrets": 4,
        "secrets_present": 0,
        "files": 2,
        "files_present": 0,
    }
    assert await target.records() == await filled.records()
    assert await contest_secret(target.store, "final") == await contest_secret(filled.store, "final")
    assert await find_store_id(target.store) == await find_store_id(filled.store)
    again = await target.import_from(out)
    assert (again["present"], again["secrets_present"], again["files_present"]) == (36, 4, 2)
    where = target.stack.kafka, target.stack.valkey, target.stack.namespace
    async with open_catalogue(*where) as catalogue, catalogue.folding():
        assert await eventually(lambda: catalogue.views.find_owner("contests", "final")) == "a1"
        assert [key.key_id for key in await list_keys(catalogue.views)] == ["k"]
    await target.append("votes", [vote_codec.encode(a_cast(vote_id="new"))])
    (*_, before, new) = (await target.records())["votes-00000"]
    assert new.timestamp_ms >= before.timestamp_ms


async def test_a_preview_changes_nothing(target: Site, out: Path) -> None:
    result = await target.tally("import", "--from", out)
    assert result.exit_code == 0, result.output
    assert "Run again with --execute to import 36 records, 4 secrets and 2 files" in result.stdout
    assert not await exists(target)


async def test_the_same_log_gives_the_same_view(growing: Site, target: Site, tmp_path: Path) -> None:
    """Votes of all kinds, what they end as, and all that a fold may trip over."""
    votes: list[Event | bytes] = [a_cast(voter=f"v{n % 6}") for n in range(60)]
    others: list[Event | bytes] = [
        a_removal(),
        a_removal(voter="v1"),
        a_void(),
        a_report(),
        Fence(1),
        Fence(2, after=1),
    ]
    log = [record.value for record in a_log([*votes, *others, *POISON, *UNFOLDABLE], 500, seed=4)]
    late: list[Event] = [Fence(50), ContestClosed("contest", 1), a_cast(vote_id="late", incarnation=50)]
    log += [vote_codec.encode(event) for event in late]
    await growing.append("votes", log, partition=1)
    await growing.export(tmp_path / "out")
    await target.import_from(tmp_path / "out", "--execute")
    one, other = await view_of(growing), await view_of(target)
    assert one == other
    assert {status for status, count in one["ids", "contest"].items() if count} == set(VoteStatus)


async def view_of(deployment: Site) -> Table:
    """Folded here and now, and compared with `tally verify`'s own fold."""
    stack = deployment.stack
    where = stack.kafka, stack.valkey, stack.namespace
    async with folded_log(*where) as log, open_catalogue(*where) as catalogue, catalogue.folding():
        for partition in range(PARTITIONS):
            await log.fold(partition)
        report = await compare(log.stack)
        assert report.equal
        assert report.quarantined
        table = await described_view(log.views, 1, set(report.contests))
        table["verified",] = report.outcomes, report.positions, json_form(report.contests)
        return table


class Killed(Exception): ...


class UntilKilled(Progress):
    """Dies when so many steps are done."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def advance(self, steps: int) -> None:
        self._left -= steps
        if self._left <= 0:
            raise Killed


async def test_an_interrupted_import_goes_on_and_nobody_serves_it_meanwhile(
    filled: Site, target: Site, out: Path
) -> None:
    for steps in (3, 20):
        async with Deployment(target.stack, UntilKilled(steps)) as deployment:
            with pytest.raises(Killed):
                await import_logs(deployment, out, True)
    check = await target.tally("topics", "check")
    assert check.exit_code == 1
    assert "message.timestamp.type is CreateTime" in check.output
    assert 0 < (await target.import_from(out))["present"] < 36
    await target.import_from(out, "--execute")
    assert await target.records() == await filled.records()
    assert (await target.tally("topics", "check")).exit_code == 0


async def refused(target: Site, directory: Path) -> str:
    """The reasons of a refusal, with and without --execute."""
    before = await exists(target)
    preview, execution = [await target.tally("import", "--from", directory, *more) for more in ([], ["--execute"])]
    assert preview.exit_code == execution.exit_code == 1
    assert complaint(preview) == complaint(execution)
    assert await exists(target) == before
    return complaint(execution)


@pytest.mark.parametrize("file", ["votes-00000.ndjson", "secrets.json"])
async def test_one_changed_byte_is_refused(target: Site, copy: Path, file: str) -> None:
    content = bytearray((copy / file).read_bytes())
    content[-20] ^= 1
    (copy / file).write_bytes(content)
    assert file in await refused(target, copy)


async def test_an_export_that_was_interrupted_is_refused(target: Site, copy: Path) -> None:
    with edited(copy) as manifest:
        manifest["complete"] = False
    assert "was interrupted" in await refused(target, copy)


async def test_another_number_of_partitions_is_refused(target: Site, out: Path) -> None:
    assert "set TALLY_PARTITIONS=2" in await refused(target.beside(partitions=5), out)


async def test_a_namespace_that_has_logs_is_left_alone(growing: Site, out: Path, tmp_path: Path) -> None:
    await growing.export(tmp_path / "former")
    await growing.append("votes", [b"more"])
    before = await growing.records()
    assert "another record at offset 0" in await refused(growing.beside(storage_url=str(tmp_path)), out)
    assert "has records that are not in the export" in await refused(growing, tmp_path / "former")
    assert await growing.records() == before


async def test_another_secret_of_the_same_name_is_never_replaced(target: Site, out: Path) -> None:
    secret = await contest_secret(target.store, "final")
    assert "holds another secrets/contests/final" in await refused(target, out)
    assert await contest_secret(target.store, "final") == secret


def plant(directory: Path, **planted: bytes) -> None:
    """Add secrets to an export, as someone may who hands it over."""
    with edited(directory, "secrets.json") as secrets, edited(directory) as manifest:
        for name, secret in planted.items():
            secrets[name] = b64encode(secret).decode()
            manifest["secrets"][name] = sha256(secret).hexdigest()


@pytest.mark.parametrize(
    "name",
    [
        "secrets/contests/elsewhere",
        "secrets/accounts/another",
        "worlds/tally/files/f",
        "development/tally.json",
        "secrets/server/../contests/final",
        "secrets/server/sessions.soon",
        "../outside",
        "/etc/passwd",
        "",
    ],
)
async def test_an_export_plants_no_secret_of_anything_that_is_not_in_it(
    target: Site, copy: Path, name: str
) -> None:
    plant(copy, **{name: bytes(32)})
    assert "a secret of nothing in it" in await refused(target, copy)


@pytest.mark.parametrize("names_the_store", [True, False])
async def test_an_import_adds_nothing_to_the_rings_of_a_used_object_store(
    filled: Site, target: Site, copy: Path, names_the_store: bool
) -> None:
    """A session's cookie signed with a planted secret would be valid for all its namespaces."""
    beside = filled.beside(namespace=target.stack.namespace)
    before = await beside.store.names("secrets")
    later = "secrets/server/sessions.0000000000000001"
    plant(copy, **{later: bytes(32), "secrets/server/new": bytes(32)})
    if not names_the_store:
        for file in ("secrets.json", "manifest.json"):
            with edited(copy, file) as content:
                content.get("secrets", content).pop("secrets/store")
    await beside.import_from(copy, "--execute")
    assert await beside.store.names("secrets") == before
    assert [secret.name for secret in await read_ring(beside.store, "receipts")] == ["secrets/server/receipts"]


async def test_an_interrupted_import_of_secrets_resumes_with_the_rings(
    filled: Site, target: Site, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("secrets.json", "manifest.json"):
        with edited(copy, file) as content:
            secrets = content.get("secrets", content)
            for name in sorted(secrets, key=lambda name: name != "secrets/store"):
                secrets[name] = secrets.pop(name)
    put, done = Store.put_if_absent, list[str]()

    async def killed_after_two(store: Store, name: str, value: bytes) -> bool:
        if len(done) == 2:
            raise Killed
        done.append(name)
        return await put(store, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put_if_absent", killed_after_two)
        async with Deployment(target.stack) as deployment:
            with pytest.raises(Killed):
                await import_logs(deployment, copy, True)
    assert len(await target.store.names("secrets")) == 2
    await target.import_from(copy, "--execute")
    assert await target.store.names("secrets") == await filled.store.names("secrets")


@pytest.mark.parametrize(
    ("member", "value", "complaint"),
    [
        ("file", "../votes-00000.ndjson", "file: String should match pattern"),
        ("file", "/etc/passwd", "file: String should match pattern"),
        ("kind", "keys", "kind"),
        ("partition", -1, "partition"),
        ("partition", 7, "other partitions"),
        ("partition", 1, "same file or partition"),
    ],
)
async def test_a_manifest_that_names_anything_else_is_refused(
    target: Site, copy: Path, member: str, value: object, complaint: str
) -> None:
    with edited(copy) as manifest:
        [part] = (part for part in manifest["parts"] if (part["kind"], part["partition"]) == ("votes", 0))
        part[member] = value
    assert complaint in await refused(target, copy)


@pytest.mark.parametrize(
    "line", [b"no line", b"[]", b'{"offset": 1}', b'{"offset": 0, "time_ms": "", "value_base64": ""}']
)
async def test_a_line_that_is_no_record_is_refused(target: Site, copy: Path, line: bytes) -> None:
    file = copy / "catalogue-00000.ndjson"
    file.write_bytes(line + b"\n")
    with edited(copy) as manifest:
        [part] = (part for part in manifest["parts"] if part["file"] == file.name)
        part["sha256"] = sha256(file.read_bytes()).hexdigest()
    assert "has no record of offset 0 in its place" in await refused(target, copy)


async def test_without_secrets_it_needs_those_of_the_object_store(
    filled: Site, target: Site, tmp_path: Path
) -> None:
    await filled.export(tmp_path / "bare", "--no-secrets")
    assert "The export has no secrets" in await refused(target, tmp_path / "bare")
    await filled.beside(namespace=target.stack.namespace).import_from(tmp_path / "bare")


async def test_a_view_of_another_log_is_in_the_way(target: Site, growing: Site, out: Path) -> None:
    """Its log is gone, as after the loss of a Kafka; what it has folded would be taken for the import's."""
    stack = growing.stack
    async with folded_log(stack.kafka, stack.valkey, stack.namespace) as log:
        await log.fold()
        keys = await log.valkey.call("KEYS", f"{stack.namespace}:*")
        for key in keys:
            moved = key.replace(stack.namespace.encode(), target.stack.namespace.encode())
            await log.valkey.call("RENAME", key, moved)
    assert "Valkey holds a view" in await refused(target, out)
