"""`tally seal` certifies a closed contest's result, `tally unseal` withdraws that; `tally certificate` shows and
verifies certificates, and proves that a vote is included in one.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from inspect import getsource
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ValidationError
from typer import Argument, BadParameter, Option

from libs.audit.log_fold import SLICE, slices, without_gc
from libs.backup.manifest import ImportRefused, read_complete, records_of
from libs.catalogue.contests.closing_record import Correction, Seal, closing_of, corrections, reopened_of, seal_of
from libs.catalogue.errors import NotClosed, NotSealed
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Document
from libs.certificates import verifier
from libs.certificates.builder import Batches, CertifiedLog, Sealing
from libs.certificates.merkle_proofs import problems, proof_of, root_of
from libs.certificates.service import SealingService, load, load_leaves, save, save_leaves
from libs.contracts.certificates import Certificate, Proof, differences
from libs.contracts.topics import Log, Topic, catalogue_topic
from libs.deployment.deployment import Deployment, Progress
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command, command_group, named, read_titles
from services.cli.output import Block, ExitCode, Result, Rows, plural


@dataclass(frozen=True, slots=True)
class SealableContest:
    """A contest, the account that owns it, and the service that seals it."""

    deployment: Deployment
    contest: str
    account: str
    records: RecordService
    sealer: SealingService

    @classmethod
    async def find(cls, deployment: Deployment, contest: str) -> "SealableContest":
        """Raises `NotFound`, and as `Deployment.check`."""
        account = await deployment.catalogue.owner_of(contest)
        records = await deployment.catalogue.record_service()
        sealer = SealingService(records, deployment.vote_views, deployment.votes, account)
        return cls(deployment, contest, account, records, sealer)

    async def document(self) -> Document:
        return (await self.records.get(CONTESTS, self.account, self.contest)).document

    async def certificate(self, seq: int | None = None) -> Certificate:
        """Return the certificate of closing `seq`, by default the latest sealed one.

        Raises `NotSealed`, and as `load`.
        """
        document = await self.document()
        closing = closing_of(document)
        latest = reopened_of(document) if closing is None else closing.seq
        for number in range(latest, 0, -1) if seq is None else [seq]:
            found = await load(self.deployment.store, self.contest, number)
            if found is not None:
                return found
        raise NotSealed(f"Closing {seq} was never sealed." if seq else "The contest was never sealed.")

    async def corrections(self) -> list[Correction]:
        """Return the titles that were changed after the closing in force."""
        return corrections(await self.deployment.catalogue.views.contest_config(self.account, self.contest))

    async def sealing(self, seq: int) -> Sealing:
        """Return the computation of closing `seq` from the log."""
        return await Sealing.open(ServedLog(self.deployment), self.account, self.contest, seq)


def certificate_text(certificate: Certificate, corrections: Sequence[Correction]) -> Iterator[Block]:
    """Yield the participants by rank with their titles, then sources, sums, the hash, and later corrections."""
    result, parts = certificate.result, certificate.partitions
    titles = {each.participant_key: each.title or "" for each in certificate.participants}
    name = named(certificate.contest_key, certificate.title)
    yield f"Contest {name}, closing {certificate.seq}, ended {timestamp(certificate.end)}"
    ranked = sorted(result.participants, key=lambda one: (one.rank, one.participant_key))
    yield Rows(
        [
            {
                "rank": one.rank,
                "participant": one.participant_key,
                "title": titles.get(one.participant_key, ""),
                "votes": one.count,
                "voters": one.unique_voter_count,
            }
            for one in ranked
        ]
    )
    for source in result.sources:
        aside = "" if source.is_in_total else ", not in the total"
        yield f"{source.source}: {plural(source.count, 'vote')}{aside}"
    yield (
        f"{plural(result.count, 'vote')} of {plural(result.unique_voter_count, 'voter')} "
        f"(of which {result.anonymous_voter_count:,} anonymous), "
        f"from {plural(sum(part.leaves for part in parts), 'record')} "
        f"in {len(parts)} partitions"
    )
    yield f"sha256 {certificate.sha256}"
    for each in corrections:
        whose = "the contest" if each.participant is None else f"participant {each.participant}"
        by = f" by {each.by}" if each.by else ""
        yield f"Corrected on {timestamp(each.at)}{by}, not in the certificate: {whose} {_change(each)}."


def _change(correction: Correction) -> str:
    before, after = (value if isinstance(value, str) else ", ".join(value) for value in correction[2:4])
    if correction.member == "title":
        return f"is called {after}" if after else "is without a title"
    return f"{'has the order' if correction.member == 'running_order' else 'is'} {after} (before: {before})"


class ServedLog:
    """Reads the log from the servers, each partition up to its end offset at the time of the call."""

    def __init__(self, deployment: Deployment) -> None:
        self._reader = deployment.reader
        self._votes = deployment.votes
        self._catalogue = deployment.catalogue.topic

    def topic_from(self, first: int) -> Topic:
        return self._votes.topic_from(first)

    async def size(self) -> int:
        return sum((await self._reader.end_offsets(self._votes.name, self._votes.numbers)).values())

    def catalogue(self, account: str) -> Batches:
        return self._records(self._catalogue, self._catalogue.partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records(self._votes, partition)

    async def _records(self, topic: Log, partition: int) -> Batches:
        ends = await self._reader.end_offsets(topic.name, [partition])
        async with aclosing(slices(self._reader, topic, partition, 0, ends[partition])) as pieces:
            async for records in pieces:
                yield records


class ExportedLog:
    """Reads the log from a directory of NDJSON files, which preserve the records' values byte for byte."""

    def __init__(self, directory: Path) -> None:
        """Raises `ImportRefused` unless `directory` holds a complete export."""
        self._directory = directory
        self._manifest = read_complete(directory)

    def topic_from(self, first: int) -> Topic:
        return self._manifest.votes.topic_from(first)

    async def size(self) -> int:
        return sum(part.end for part in self._manifest.parts if part.kind == "votes")

    def catalogue(self, account: str) -> Batches:
        return self._records("catalogue", catalogue_topic("").partition_of(account))

    def votes(self, partition: int) -> Batches:
        return self._records("votes", partition)

    async def _records(self, kind: str, partition: int) -> Batches:
        """Yield the records of one file. Raises `ImportRefused`."""
        part = next(part for part in self._manifest.parts if (part.kind, part.partition) == (kind, partition))
        records = records_of(self._directory, part)
        try:
            while piece := list(islice(records, SLICE)):
                yield piece
        except OSError as error:
            raise ImportRefused(f"{part.file} cannot be read: {error.strerror}.") from None


M = TypeVar("M", bound=BaseModel)
MOST_SHOWN = 30

app = command_group("Certificates of sealed contests.")

Seq = Annotated[int | None, Option("--seq", min=1, help="Number of the closing; default: the latest sealed one.")]


@command(app)
async def show(deployment: Deployment, contest: ContestKey, seq: Seq = None) -> Result:
    """Show a contest's certificate; with --json, exactly as stored."""
    found = await SealableContest.find(deployment, contest)
    certificate = await found.certificate(seq)
    seal = seal_of(await found.document())
    in_force = seal is not None and seal.sha256 == certificate.sha256
    state = "The contest is sealed with it." if in_force else "The contest was unsealed later."
    return Result(certificate.canonical(), [*certificate_text(certificate, await found.corrections()), state])


@command(app)
async def verify(
    deployment: Deployment,
    file: Annotated[Path, Argument(help="File of the certificate.", exists=True, dir_okay=False)],
    export: Annotated[
        Path | None,
        Option(
            help="Directory written by `tally export`, read in place of the servers.", exists=True, file_okay=False
        ),
    ] = None,
) -> Result:
    """Recompute a certificate from the log and list all differences."""
    given = _read(file, Certificate, "FILE")
    log = ServedLog(deployment) if export is None else ExportedLog(export)
    with without_gc():
        found = await _find_problems(given, log, deployment.progress)
    of = {"contest_key": given.contest_key, "title": given.title, "seq": given.seq, "sha256": given.sha256}
    votes = given.result.count
    fits = f"The certificate matches the log: {plural(votes, 'vote')}, sha256 {given.sha256}."
    return Result(
        of | {"problems": found, "votes": votes, "verified": not found},
        [
            f"Contest {named(given.contest_key, given.title)}, closing {given.seq}",
            *_problems(found, "The certificate does not match the log.", fits),
        ],
        ExitCode.fine_if(not found),
    )


@command(app)
async def prove(
    deployment: Deployment,
    contest: ContestKey,
    receipt: Annotated[str, Argument(help="Receipt that the voter received for the vote.")],
    out: Annotated[
        Path | None, Option(help="File for the proof; default: standard output.", dir_okay=False)
    ] = None,
    seq: Seq = None,
) -> Result:
    """Prove that the vote with this receipt is in the sealed set, without naming any voter."""
    found = await SealableContest.find(deployment, contest)
    certificate = await found.certificate(seq)
    with without_gc():
        proof = await _prove(found, certificate, receipt, deployment.progress)
    line = proof.model_dump_json()
    if out is None:
        return Result(line.encode(), [line])
    _write(out, line + "\n")
    titles = await read_titles(deployment, contest)
    return Result(line.encode(), [f"Contest {titles}: the vote {_became(proof.became)}. Proof written to {out}."])


@command(app)
async def check(
    proof_file: Annotated[Path, Argument(metavar="PROOF", exists=True, dir_okay=False)],
    certificate_file: Annotated[Path, Argument(metavar="CERTIFICATE", exists=True, dir_okay=False)],
) -> Result:
    """Check a proof against a certificate, without servers."""
    proof = _read(proof_file, Proof, "PROOF")
    found = problems(proof, _read(certificate_file, Certificate, "CERTIFICATE"))
    vote = {"became": proof.became, "receipt": proof.receipt, "certificate": proof.certificate}
    holds = f"The proof is valid: the vote {_became(proof.became)}, by certificate {proof.certificate}."
    text = _problems(found, "The proof is not valid.", holds)
    return Result({"problems": found, **vote, "holds": not found}, text, ExitCode.fine_if(not found))


@command(app, "verifier")
async def write_verifier(
    out: Annotated[Path, Option(help="The file to write.", dir_okay=False)] = Path("verify_certificate.py"),
) -> Result:
    """Write the program with which others check a certificate and a proof against an export.

    It is one file, needs only Python, and shares no code with this service. The guide on certificates says what it
    computes, for those who would rather write another one.
    """
    _write(out, getsource(verifier))
    return Result({"out": str(out)}, [f"Written to {out}. Run: python3 {out} CERTIFICATE --export DIRECTORY"])


@command()
async def seal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Certify the result of a closed contest from the log alone, and prevent reopening.

    External sources that may still report are ended at once.
    """
    found, titles = await SealableContest.find(deployment, contest), await read_titles(deployment, contest)
    closing = await found.sealer.closing(contest)
    reporting = await found.sealer.reporting(contest, closing)
    members: dict[str, object] = {"contest_key": contest, "titles": titles}
    if reporting and execute:
        await found.sealer.end_grace(contest, closing)
    elif any(not closing.sources[name].retired for name in reporting):
        members |= {"reporting": reporting, "certificate": None, "corrections": []}
        text = [f"Contest {titles}: external sources may still report: {', '.join(reporting)}."]
        return Result.change(members, text, False, "", "end this now and seal the resulting counts")
    await found.sealer.final(contest, closing)
    deployment.progress.begin("Reading the log", await ServedLog(deployment).size())
    keep = partial(save_leaves, deployment.store, contest, closing.seq) if execute else None
    with without_gc():
        certificate = await (await found.sealing(closing.seq)).certify(deployment.progress.advance, keep)
    if execute:
        # The certificate first, so that every sealed contest has one.
        await save(deployment.store, certificate)
        await found.sealer.seal(contest, Seal(certificate.seq, certificate.sha256, time.time_ns() // 1000))
    corrections = await found.corrections()
    members |= {"reporting": [], "certificate": certificate, "corrections": corrections}
    return Result.change(members, certificate_text(certificate, corrections), execute, "Sealed.", "seal it")


@command()
async def unseal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Allow a sealed contest to be reopened. Its certificate is kept."""
    found, titles = await SealableContest.find(deployment, contest), await read_titles(deployment, contest)
    seal = seal_of(await found.document())
    if seal is None:
        raise NotSealed("The contest is not sealed.")
    if execute:
        await found.sealer.unseal(contest)
    members = {"contest_key": contest, "title": titles.title, "seq": seal.seq, "sha256": seal.sha256}
    text = [f"Contest {titles}, closing {seal.seq}, sealed as {seal.sha256}."]
    return Result.change(members, text, execute, "Unsealed; the certificate is kept.", "unseal it")


async def _find_problems(given: Certificate, log: CertifiedLog, progress: Progress) -> list[str]:
    """List the problems of the file itself and its differences from the log."""
    found = [] if given.is_whole else ["/sha256: is not that of the certificate's contents: the file was changed"]
    progress.begin("Reading the log", await log.size())
    try:
        sealing = await Sealing.open(log, given.decision.account, given.contest_key, given.seq)
        return found + differences(given, await sealing.certify(progress.advance))
    except NotClosed as error:
        return [*found, error.message]


async def _prove(contest: SealableContest, certificate: Certificate, receipt: str, progress: Progress) -> Proof:
    """Find the receipt's vote and build its proof. Raises `LogDiffers` and `NotInSet`."""
    sealing: Sealing | None = None
    for sealed in certificate.partitions:
        leaves = await load_leaves(contest.deployment.store, certificate, sealed)
        if leaves is None:
            if sealing is None:
                progress.begin("Reading the log", await ServedLog(contest.deployment).size())
                sealing = await contest.sealing(certificate.seq)
            leaves = await sealing.leaves(sealed.partition, progress.advance)
        if root_of([leaf.hash for leaf in leaves]).hex() != sealed.root:
            raise LogDiffers(
                f"Partition {sealed.partition} of the log differs from the sealed one: "
                "`tally certificate verify` lists the differences."
            )
        proof = proof_of(certificate, sealed.partition, leaves, receipt)
        if proof is not None:
            return proof
    raise NotInSet(
        "No vote with this receipt is in the sealed set: it was too late, or belongs to another contest."
    )


class LogDiffers(TallyError):
    """The log holds other records than those that were sealed."""


class NotInSet(TallyError):
    """No vote in the sealed set has this receipt."""


def _became(became: str) -> str:
    if became == "counted":
        return "is in the sealed set and counted"
    if became == "unapproved":
        return "is in the sealed set, but for none of the final participants"
    return f"is in the sealed set as {became}, and not counted"


def _problems(problems: Sequence[str], verdict: str, fine: str) -> Iterator[Block]:
    yield from problems[:MOST_SHOWN]
    if len(problems) > MOST_SHOWN:
        yield f"... and {len(problems) - MOST_SHOWN:,} more (all of them with --json)."
    yield verdict if problems else fine


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadParameter(f"{file}: {error.strerror}", param_hint="--out") from None


def _read(file: Path, model: type[M], hint: str) -> M:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"]))
        message = f"{file} is no {model.__name__.lower()}: {where or 'file'}: {first['msg']}"
        raise BadParameter(message, param_hint=hint) from None
