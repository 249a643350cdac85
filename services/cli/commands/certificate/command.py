"""`tally certificate`: shows and verifies certificates, and proves that a vote is included in one."""

from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from libs.audit.log_fold import without_gc
from libs.catalogue.errors import NotClosed
from libs.certificates.builder import Log, Sealing
from libs.certificates.proofs.inclusion import problems, proof_of
from libs.certificates.proofs.merkle import root_of
from libs.contracts.certificates import Certificate, Proof, differences
from libs.kafka.reader import LogReader
from libs.tally.errors import TallyError
from libs.telemetry.progress import Progress
from services.cli.commands.certificate.context import SealContext, open_seal_context
from services.cli.commands.certificate.log_source import ExportedLog, ServedLog
from services.cli.commands.certificate.render import show as show_certificate
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

M = TypeVar("M", bound=BaseModel)
MOST_SHOWN = 30

app = typer.Typer(no_args_is_help=True, help="Certificates of sealed contests.")

ContestKey = Annotated[str, typer.Argument(help="Key of the contest.")]
Seq = Annotated[
    int | None, typer.Option("--seq", min=1, help="Number of the closing; default: the latest sealed one.")
]


@app.command()
def show(contest: ContestKey, seq: Seq = None, data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Show a contest's certificate; with --json, exactly as stored."""

    async def work() -> ExitCode:
        async with open_seal_context(find_deployment(data_dir), contest) as context:
            certificate = await context.certificate(seq)
            in_force = await context.in_force(certificate)
        if as_json:
            typer.echo(certificate.canonical())
        else:
            show_certificate(certificate)
            typer.echo("The contest is sealed with it." if in_force else "The contest was unsealed later.")
        return ExitCode.FINE

    run(work())


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="File of the certificate.", exists=True, dir_okay=False)],
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Directory written by `tally export`, read in place of the servers.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Recompute a certificate from the log and list all differences."""

    async def work() -> ExitCode:
        given = _read(file, Certificate, "FILE")
        with ProgressBar("Reading the log", enabled=not as_json) as progress, without_gc():
            if export is not None:
                found = await _find_problems(given, _exported(export), progress)
            else:
                stack = find_deployment(data_dir)
                async with LogReader(stack.kafka_settings) as reader:
                    found = await _find_problems(given, ServedLog(reader, stack), progress)
        if as_json:
            where = {"contest_key": given.contest_key, "seq": given.seq, "sha256": given.sha256}
            print_json(where | {"verified": not found, "problems": found})
        else:
            fits = f"The certificate matches the log: {given.result.count:,} votes, sha256 {given.sha256}."
            _print_problems(found, "The certificate does not match the log.", fits)
        return ExitCode.PROBLEM if found else ExitCode.FINE

    run(work())


@app.command()
def prove(
    contest: ContestKey,
    receipt: Annotated[str, typer.Argument(help="Receipt that the voter received for the vote.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the proof; default: standard output.", dir_okay=False)
    ] = None,
    seq: Seq = None,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Prove that the vote with this receipt is in the sealed set, without naming any voter."""

    async def work() -> ExitCode:
        async with open_seal_context(find_deployment(data_dir), contest) as context:
            certificate = await context.certificate(seq)
            with ProgressBar("Reading the log", enabled=not as_json and out is not None) as progress, without_gc():
                proof = await _prove(context, certificate, receipt, progress)
        if out is not None:
            _write(out, proof)
        if out is None or as_json:
            print_json(proof.model_dump())
        else:
            typer.echo(f"The vote {_became(proof)}. Proof written to {out}.")
        return ExitCode.FINE

    run(work())


@app.command()
def check(
    proof_file: Annotated[Path, typer.Argument(metavar="PROOF", exists=True, dir_okay=False)],
    certificate_file: Annotated[Path, typer.Argument(metavar="CERTIFICATE", exists=True, dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Check a proof against a certificate, without servers."""

    async def work() -> ExitCode:
        proof = _read(proof_file, Proof, "PROOF")
        found = problems(proof, _read(certificate_file, Certificate, "CERTIFICATE"))
        if as_json:
            print_json({"holds": not found, "problems": found, "became": proof.became, "receipt": proof.receipt})
        else:
            holds = f"The proof is valid: the vote {_became(proof)}, by certificate {proof.certificate}."
            _print_problems(found, "The proof is not valid.", holds)
        return ExitCode.PROBLEM if found else ExitCode.FINE

    run(work())


async def _find_problems(given: Certificate, log: Log, progress: Progress) -> list[str]:
    """List the problems of the file itself and its differences from the log."""
    found = [] if given.is_whole else ["/sha256: is not that of the certificate's contents: the file was changed"]
    progress.begin(await log.size())
    try:
        sealing = await Sealing.open(log, given.decision.account, given.contest_key, given.seq)
        return found + differences(given, await sealing.certify(progress.advance))
    except NotClosed as error:
        return [*found, error.message]


async def _prove(context: SealContext, certificate: Certificate, receipt: str, progress: Progress) -> Proof:
    """Find the receipt's vote and build its proof. Raises `LogDiffers` and `NotInSet`."""
    progress.begin(len(certificate.partitions))
    sealing = await Sealing.open(context.log, context.account, context.contest, certificate.seq)
    for sealed in certificate.partitions:
        leaves = await sealing.leaves(sealed.partition)
        if root_of([leaf.hash for leaf in leaves]).hex() != sealed.root:
            raise LogDiffers(
                f"Partition {sealed.partition} of the log differs from the sealed one: "
                "`tally certificate verify` lists the differences."
            )
        proof = proof_of(certificate, sealed.partition, leaves, receipt)
        if proof is not None:
            return proof
        progress.advance(1)
    raise NotInSet(
        "No vote with this receipt is in the sealed set: it was too late, or belongs to another contest."
    )


class LogDiffers(TallyError):
    """The log holds other records than those that were sealed."""


class NotInSet(TallyError):
    """No vote in the sealed set has this receipt."""


def _became(proof: Proof) -> str:
    if proof.became == "counted":
        return "is in the sealed set and counted"
    if proof.became == "unapproved":
        return "is in the sealed set, but for none of the final participants"
    return f"is in the sealed set as {proof.became}, and not counted"


def _print_problems(problems: list[str], verdict: str, fine: str) -> None:
    for problem in problems[:MOST_SHOWN]:
        typer.echo(problem)
    if len(problems) > MOST_SHOWN:
        typer.echo(f"... and {len(problems) - MOST_SHOWN:,} more (all of them with --json).")
    typer.echo(verdict if problems else fine)


def _exported(directory: Path) -> ExportedLog:
    try:
        return ExportedLog(directory)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--export") from None


def _write(file: Path, proof: Proof) -> None:
    try:
        file.write_text(proof.model_dump_json() + "\n")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--out") from None


def _read(file: Path, model: type[M], hint: str) -> M:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"]))
        message = f"{file} is no {model.__name__.lower()}: {where or 'file'}: {first['msg']}"
        raise typer.BadParameter(message, param_hint=hint) from None
