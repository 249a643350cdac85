"""`tally seal` certifies a closed contest's result, `tally unseal` withdraws that; `tally certificate` shows and
verifies certificates, and proves that a vote is included in one.
"""

from collections.abc import Iterator, Sequence
from inspect import getsource
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ValidationError
from typer import Argument, BadParameter, Option

from libs.audit.log_fold import without_gc
from libs.audit.sealed_contest import SealableContest, ServedLog, differences_from
from libs.backup.exported_log import ExportedLog
from libs.catalogue.contests.corrections import Correction
from libs.catalogue.contests.seals import seal_of
from libs.catalogue.errors import NotSealed
from libs.certificates import verifier
from libs.certificates.merkle_proofs import problems
from libs.contracts.certificates import Certificate, Proof
from libs.deployment.deployment import Deployment
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command, command_group, named, read_titles
from services.cli.output import Block, ExitCode, Result, Rows, plural


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
    if lost := sum(part.lost for part in parts):
        yield f"The log lost {plural(lost, 'accepted vote')} of the contest: they are in no count."
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
        found = await differences_from(log, given, deployment.progress)
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
        proof = await found.prove(certificate, receipt)
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
    with without_gc():
        certificate = await found.certify(closing.seq, keeps=execute)
    if execute:
        await found.seal(certificate)
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
