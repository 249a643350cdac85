"""`tally seal` and `tally unseal`: certify a closed contest's result, or withdraw that."""

import time
from typing import Annotated

import typer

from libs.audit.log_fold import without_gc
from libs.catalogue.contests.closing import Seal, seal_of
from libs.catalogue.errors import NotSealed
from libs.certificates.builder import Sealing
from libs.certificates.store import save
from libs.contracts.certificates import Certificate
from services.cli.commands.certificate.context import SealContext, open_seal_context
from services.cli.commands.certificate.render import show
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

ContestKey = Annotated[str, typer.Argument(help="Key of the contest.")]
Execute = Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")]


def seal(
    contest: ContestKey, execute: Execute = False, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """Certify the result of a closed contest from the log alone, and prevent reopening.

    External sources that may still report are ended at once.
    """

    async def work() -> ExitCode:
        async with open_seal_context(find_deployment(data_dir), contest) as context:
            closing = await context.sealer.closing(contest)
            reporting = await context.sealer.reporting(contest, closing)
            if reporting and execute:
                await context.sealer.end_grace(contest, closing)
            elif any(not closing.sources[name].retired for name in reporting):
                _show_reporting(contest, reporting, as_json)
                return ExitCode.FINE
            await context.sealer.final(contest, closing)
            with ProgressBar("Reading the log", enabled=not as_json) as progress, without_gc():
                progress.begin(await context.log.size())
                sealing = await Sealing.open(context.log, context.account, contest, closing.seq)
                certificate = await sealing.certify(progress.advance)
            if execute:
                await _seal(context, certificate)
        _show(certificate, execute, as_json)
        return ExitCode.FINE

    run(work())


def unseal(
    contest: ContestKey, execute: Execute = False, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """Allow a sealed contest to be reopened. Its certificate is kept."""

    async def work() -> ExitCode:
        async with open_seal_context(find_deployment(data_dir), contest) as context:
            found = seal_of((await context.record()).document)
            if found is None:
                raise NotSealed("The contest is not sealed.")
            if execute:
                await context.sealer.unseal(contest)
        if as_json:
            print_json({"contest_key": contest, "seq": found.seq, "sha256": found.sha256, "executed": execute})
        elif execute:
            typer.echo(f"Unsealed; the certificate {found.sha256} is kept.")
        else:
            typer.echo(f"Closing {found.seq} is sealed as {found.sha256}. Run again with --execute to unseal it.")
        return ExitCode.FINE

    run(work())


async def _seal(context: SealContext, certificate: Certificate) -> None:
    """Store the certificate first, so that every sealed contest has one."""
    await save(context.store, certificate)
    seal = Seal(certificate.seq, certificate.sha256, time.time_ns() // 1000)
    await context.sealer.seal(context.contest, seal)


def _show_reporting(contest: str, sources: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"contest_key": contest, "executed": False, "reporting": sources, "certificate": None})
        return
    typer.echo(f"External sources may still report: {', '.join(sources)}.")
    typer.echo("Run again with --execute to end this now and seal the resulting counts.")


def _show(certificate: Certificate, executed: bool, as_json: bool) -> None:
    if as_json:
        described = {"contest_key": certificate.contest_key, "executed": executed, "reporting": []}
        print_json(described | {"certificate": certificate.model_dump()})
        return
    show(certificate)
    typer.echo("Sealed." if executed else "Run again with --execute to seal it.")
