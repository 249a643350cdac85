"""The verifier that shares no code with the service: it finds the same certificates, and every change of one."""

import asyncio
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.catalogue.errors import NotClosed
from libs.certificates import verifier
from libs.certificates.builder import Sealing
from libs.certificates.merkle_proofs import proof_of
from libs.contracts.catalogue_events import (
    CatalogueEvent,
    ContestRestored,
    RecordDeleted,
    RecordsWritten,
    Write,
    catalogue_codec,
)
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import to_line
from libs.tally.events import Actor, ContestClosed, ContestReopened, Event, Fence, LogCreated, Rating
from libs.views.votes.votes_apply_items import POISON as POISONED
from libs.views.votes.votes_apply_items import fold_item
from tests.libs.certificates.in_memory_log import (
    ACCOUNT,
    MARK,
    TV,
    Recorded,
    changed,
    closing,
    made,
    receipted,
    recorded,
)
from tests.libs.views.random_logs import logs
from tests.support.builders.contests import a_cast, a_removal, a_report, a_restore, a_void
from tests.support.hypothesis_examples import examples

VERIFIER = Path(verifier.__file__)
KINDS = ["voteonly", "rating", "ordering"]


async def exported(log: Recorded, directory: Path) -> None:
    """Write the log as `tally export` does. The account's records are in its partition of the catalogue."""
    parts = []

    async def write(kind: str, partition: int, batches: Any) -> None:
        records = [record async for batch in batches for record in batch]
        content = b"".join(to_line(kind, partition, record) for record in records)
        file = f"{kind}-{partition:05d}.ndjson"
        (directory / file).write_bytes(content)
        digest = sha256(content).hexdigest()
        parts.append({"kind": kind, "partition": partition, "start": 0, "file": file, "sha256": digest})

    for partition in range(4):
        await write("catalogue", partition, log.catalogue(""))
    numbers = log.topic_from(0).numbers
    for partition in numbers:
        await write("votes", partition, log.votes(partition))
    manifest = {"complete": True, "partitions": len(numbers), "later": {}, "parts": parts}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def verified(directory: Path, certificate: Any, proof: Any = None) -> tuple[int, str]:
    """Run the file as its readers do: a copy of it alone, without any package; return exit code and output."""
    copy, written = directory / "verifier.py", directory / "certificate.json"
    copy.write_bytes(VERIFIER.read_bytes())
    written.write_text(json.dumps(certificate))
    command = [sys.executable, "-I", "-S", str(copy), str(written), "--export", str(directory)]
    if proof is not None:
        (directory / "proof.json").write_text(json.dumps(proof))
        command += ["--proof", str(directory / "proof.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def a_log() -> Recorded:
    votes: list[Event | bytes] = [
        receipted(a_cast("a", 3, voter="ann", vote_id="one")),
        receipted(a_cast("b", 1, voter="bob", vote_id="two", anonymous=True)),
        a_removal(voter="bob", vote_id="two"),
        a_report("first", ("A", 5, 4, 1), source=TV),
        b"poison",
        MARK,
        ContestClosed("contest", 1, TV),
    ]
    return recorded(votes, catalogue=[made(), closing(studio={})])


POISON: Final = [
    *(b"not json", b"[1,2]", b"5", b"null", b"{}", b"", b'{"type":"RecordsWritten","writes":5}'),
    b'{"type":"RecordsWritten","account":"account","command_id":"c","at":1,"writes":[{"contest":"one"}]}',
    catalogue_codec.encode(replace(changed("c"), contest="one")).replace(b'"at":1', b'"at":"1"'),
    catalogue_codec.encode(replace(changed("c"), contest="one")).replace(b'"key":"contest"', b'"key":"a/b"'),
    catalogue_codec.encode(replace(closing(), contest="one")).replace(b'"command_id"', b'"command"'),
    catalogue_codec.encode(LogCreated("later")),
    b'{"type":"ContestMoved","contest":"one"}',
]
"""Records of the catalogue that change no contest, and are none."""


@given(
    logs,
    st.integers(1, 3),
    st.sampled_from(KINDS),
    st.sampled_from(["ab", "b", ""]),
    st.booleans(),
    st.lists(st.sampled_from(POISON), max_size=3),
)
@settings(max_examples=examples(300), deadline=None)
def test_it_computes_the_same_certificate_from_any_log(
    log: Sequence[LogRecord], seq: int, kind: str, approved: str, is_in_total: bool, poison: list[bytes]
) -> None:
    """Unless a random log reopens the contest before its markers: then neither gives one."""
    asyncio.run(compare(log, seq, kind, approved, is_in_total, poison))


async def compare(
    log: Sequence[LogRecord], seq: int, kind: str, approved: str, is_in_total: bool, poison: list[bytes]
) -> None:
    ends: list[Event] = [ContestClosed("one", seq), *(ContestClosed("one", seq, name) for name in ("sms", "tv"))]
    values: list[Event | bytes] = [record.value for record in log[1:]]
    sources: dict[str, Any] = {
        name: {"is_in_total": is_in_total, "mapping": {"x": "a", "y": "b"}} for name in ("sms", "tv")
    }
    decided = replace(closing(seq, kind=kind, approved=approved, **sources), contest="one")
    whole = Recorded([replace(made(), key="one", contest="one"), *poison, decided], [[*values, *ends]])
    with TemporaryDirectory() as directory:
        await exported(whole, Path(directory))
        export = verifier.Export(Path(directory))
        sealing = await Sealing.open(whole, ACCOUNT, "one", seq)
        try:
            expected = (await sealing.certify()).model_dump(mode="json")
        except NotClosed:
            wanted = {"contest_key": "one", "seq": seq, "decision": {"account": ACCOUNT}}
            with pytest.raises(verifier.BrokenFile):
                verifier.certificate_of(export, wanted)
            return
        assert list(verifier.differences("", expected, verifier.certificate_of(export, expected))) == []


HOSTILE: Final = ["null", "true", "0", "-1", "1.0", "1e400", "NaN", "9" * 30, '""', '"x"', '"1"', '"\\ud800"']
HOSTILE_PARTS: Final = [
    '"a\\u0000b"',
    '"-"',
    "[]",
    "{}",
    "[[]]",
    '[["a", 1]]',
    '[["b", 1, 2, 3], 4]',
    '{"value": 1.0}',
]
COMMANDS: Final[dict[str, Any]] = {
    "account": ACCOUNT,
    "command_id": "c",
    "at": 1,
    "actor": Actor("key", "k", "192.0.2.1"),
}
VOTES: Final[list[Event]] = [
    LogCreated("log", "store", 4),
    Fence(3, after=2, run="run"),
    a_cast(),
    replace(
        a_cast(),
        form="rating",
        rating=Rating(5, (("s", 1),)),
        positions=(("1", "a"),),
        platform="ios",
        address="a",
    ),
    replace(a_removal(), participants=("a",), actor=Actor("key", "k")),
    a_void(),
    a_restore(),
    a_report("r", ("A", 5, 4, 1)),
    ContestClosed("contest", 1, TV),
    ContestReopened("contest", 1, 5),
]
CATALOGUE: Final[list[CatalogueEvent]] = [
    LogCreated("log", "store", 4),
    replace(made(), parent=("contests", "k"), refs=(("media", "m"),), offers=(("a/b", "c"),), due=5, sort_key="s"),
    changed("c"),
    RecordsWritten(writes=(Write(resource="contests", key="k", record="{}", contest="contest"),), **COMMANDS),
    RecordDeleted(resource="contests", key="k", expected_version=1, contest="contest", **COMMANDS),
    closing(),
    ContestRestored(contest="contest", due=5, **COMMANDS),
]


def spoilt(value: bytes) -> Iterator[bytes]:
    """Yield a record with each member missing, and with hostile values in its place; with members of other events;
    and in forms that only some readers of JSON take.
    """
    event = json.loads(value)
    others: list[dict[str, Any]] = [{"contest": "other"}, {"writes": 5}, {"incarnation": 7}, {"choices": []}]
    yield from (json.dumps(members | event).encode() for members in others)
    for text in (json.dumps(each) for each in hollowed(event)):
        yield text.replace('"HOLE", ', "").replace(', "HOLE"', "").encode()
        for hostile in HOSTILE + HOSTILE_PARTS:
            yield text.replace('"HOLE"', hostile).encode()
    yield from (b"", b"\xef\xbb\xbf" + value, value.decode().encode("utf-16"), value + b"\n ", value + b"\xc2\xa0")
    yield from (value[:-1], value + value, b"[%s]" % value, value[:-1] + b",}", b'{"type":"Fence",' + value[1:])
    extras = (
        *(b"[" * depth + b"]" * depth for depth in (200, 201, 5_000)),
        b"9" * 4_300,
        b"9" * 4_301,
        b"-Infinity",
    )
    for extra in (*extras, b'"\\ud83c\\udfa4"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b'"\x7f"', b"01", b"1."):
        yield b'{"extra":' + extra + b"," + value[1:]


def hollowed(value: Any) -> Iterator[Any]:
    """Yield the value with each member and item replaced by "HOLE", one at a time."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield {other: its for other, its in value.items() if other != name}
            yield value | {name: "HOLE"}
            yield from (value | {name: inner} for inner in hollowed(member))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from ([*value[:at], inner, *value[at + 1 :]] for inner in ("HOLE", *hollowed(member)))


@pytest.mark.parametrize("event", VOTES, ids=lambda event: event.type)
def test_it_leaves_out_the_votes_records_that_the_fold_leaves_out(event: Event) -> None:
    for value in spoilt(vote_codec.encode(event)):
        found = vote_codec.decode(value)
        is_folded = not isinstance(found, Undecodable) and fold_item(found, 0, 0)[0] != POISONED
        assert (verifier.decoded(value, verifier.SHAPES) is not None) == is_folded, value


@pytest.mark.parametrize("event", CATALOGUE, ids=lambda event: event.type)
def test_it_leaves_out_the_records_of_the_catalogue_that_the_fold_leaves_out(event: CatalogueEvent) -> None:
    for value in spoilt(catalogue_codec.encode(event)):
        found = catalogue_codec.decode(value)
        of_verifier = verifier.decoded(value, verifier.CATALOGUE_SHAPES)
        assert (of_verifier is not None) == (not isinstance(found, Undecodable)), value


class Sealed(NamedTuple):
    certificate: dict[str, Any]
    proof: dict[str, Any]
    """Of one vote."""


@pytest.fixture
async def sealed(tmp_path: Path) -> Sealed:
    """Export a log to `tmp_path`."""
    log = a_log()
    await exported(log, tmp_path)
    certificate = await log.certify()
    proof = proof_of(certificate, 0, await (await log.sealing()).leaves(0), "receipt-of-one")
    assert proof is not None
    return Sealed(certificate.model_dump(mode="json"), proof.model_dump(mode="json"))


def test_it_runs_alone_and_confirms_a_certificate_and_a_proof(tmp_path: Path, sealed: Sealed) -> None:
    said = f"The export gives this certificate: sha256 {sealed.certificate['sha256']}\n"
    assert verified(tmp_path, sealed.certificate) == (0, said)
    where = f"is in it as counted: offset {sealed.proof['offset']} of partition 0"
    shown = f"The proof's vote, with the receipt receipt-of-one, {where}\n"
    assert verified(tmp_path, *sealed) == (0, said + shown)


def test_it_notices_every_changed_member_of_a_certificate_and_of_a_proof(tmp_path: Path, sealed: Sealed) -> None:
    certificate, proof = sealed
    found = verifier.certificate_of(verifier.Export(tmp_path), certificate)
    assert list(verifier.differences("", certificate, found)) == []
    changed = [*changes(certificate), *reshaped(certificate)]
    assert len(changed) > 60
    for forged in changed:
        assert list(verifier.differences("", forged, found)), forged
    elsewhere = {**proof, "partition": 9}
    assert list(verifier.proof_problems(elsewhere, certificate)) == ["the certificate has no partition 9"]
    for forged in changes(proof):
        try:
            problems = list(verifier.proof_problems(forged, certificate))
        except (ValueError, TypeError):
            continue
        assert problems, forged


def of_votes(line: bytes) -> tuple[int, int]:
    """Return where the certified bytes of a record of votes begin and end: not those of poison or a marker."""
    is_certified = b'"contest"' in line and b"ContestClosed" not in line
    return (line.index(b',"event":'), len(line)) if is_certified else (0, 0)


def of_catalogue(line: bytes) -> tuple[int, int]:
    """Return where the closing, or the id of the log, begins and ends."""
    if b'"log_id":"' in line:
        begin = line.index(b'"log_id":"')
        return begin, line.index(b",", begin)
    return (line.index(b"closing"), line.index(b',"expected_config"')) if b"ContestClosing" in line else (0, 0)


@pytest.mark.parametrize(("kind", "of_line"), [("votes", of_votes), ("catalogue", of_catalogue)])
def test_it_notices_every_changed_byte_of_an_export(
    tmp_path: Path, sealed: Sealed, kind: str, of_line: Callable[[bytes], tuple[int, int]]
) -> None:
    """Also where the manifest has the changed file's hash: as somebody would write it who changed the log."""
    certificate = sealed.certificate
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    number = zlib.crc32(ACCOUNT.encode()) % 4 if kind == "catalogue" else 0
    part = next(part for part in manifest["parts"] if (part["kind"], part["partition"]) == (kind, number))
    file, content = tmp_path / part["file"], (tmp_path / part["file"]).read_bytes()
    certified, start = set[int](), 0
    for line in content.splitlines(keepends=True):
        begin, end = of_line(line)
        certified.update(range(start + begin, start + end))
        start += len(line)
    assert len(certified) > 300
    for at in range(len(content)):
        forged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        file.write_bytes(forged)
        part["sha256"] = sha256(content).hexdigest()
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(verifier.BrokenFile, match="was changed"):
            verifier.certificate_of(verifier.Export(tmp_path), certificate)
        if at in certified:
            part["sha256"] = sha256(forged).hexdigest()
            (tmp_path / "manifest.json").write_text(json.dumps(manifest))
            assert is_noticed(tmp_path, certificate), forged[at - 20 : at + 20]


def test_it_notices_every_changed_member_of_a_manifest_that_it_reads(tmp_path: Path, sealed: Sealed) -> None:
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    unread = [("catalogue", number) for number in range(4) if number != zlib.crc32(ACCOUNT.encode()) % 4]
    manifest["parts"] = [part for part in manifest["parts"] if (part["kind"], part["partition"]) not in unread]
    forged = list(changes(manifest))
    assert len(forged) > 15
    for each in forged:
        (tmp_path / "manifest.json").write_text(json.dumps(each))
        assert is_noticed(tmp_path, sealed.certificate), each


def is_noticed(directory: Path, certificate: Any) -> bool:
    try:
        return verifier.certificate_of(verifier.Export(directory), certificate) != certificate
    except (verifier.BrokenFile, OSError, ValueError, LookupError, TypeError, AttributeError):
        return True


def test_a_broken_export_is_told_from_a_wrong_certificate(tmp_path: Path, sealed: Sealed) -> None:
    certificate = sealed.certificate
    code, output = verified(tmp_path, certificate | {"title": "Another"})
    assert (code, output.splitlines()[0]) == (1, '/title: the certificate says "Another", the export "Final"')
    assert verified(tmp_path, ["none"])[0] == 2
    (tmp_path / "votes-00000.ndjson").unlink()
    code, output = verified(tmp_path, certificate)
    assert (code, "votes-00000.ndjson" in output, "Traceback" in output) == (2, True, False)


def changes(value: Any) -> Iterator[Any]:
    """Yield the value with each of its members changed, one at a time."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from (value | {name: changed} for changed in changes(member))
    elif isinstance(value, list):
        yield [*value, "more"]
        for at, member in enumerate(value):
            yield value[:at] + value[at + 1 :]
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in changes(member))
    elif isinstance(value, str):
        yield ("b" if value[:1] == "a" else "a") + value[1:] if value else "a"
    elif isinstance(value, bool):
        yield not value
    else:
        yield 1 if value is None else value + 1


def reshaped(value: Any) -> Iterator[Any]:
    """Yield the value with a member less, or with one more that is null, one at a time."""
    if isinstance(value, dict):
        yield value | {"more": None}
        for name, member in value.items():
            yield {other: value[other] for other in value if other != name}
            yield from (value | {name: changed} for changed in reshaped(member))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in reshaped(member))
