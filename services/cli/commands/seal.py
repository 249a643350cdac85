"""`tally seal` and `tally unseal`: certify a closed contest's result, or withdraw that."""

import time

from libs.audit.log_fold import without_gc
from libs.catalogue.contests.closing_record import Seal, seal_of
from libs.catalogue.errors import NotSealed
from libs.certificates.service import save
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import ContestKey, Execute, command
from services.cli.commands.certificate import SealableContest, ServedLog, certificate_text
from services.cli.contest_lookup import read_titles
from services.cli.output import Result


@command()
async def seal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Certify the result of a closed contest from the log alone, and prevent reopening.

    External sources that may still report are ended at once.
    """
    found, titles = await SealableContest.find(deployment, contest), await read_titles(deployment, contest)
    closing = await found.sealer.closing(contest)
    reporting = await found.sealer.reporting(contest, closing)
    members = {"contest_key": contest, "titles": titles}
    if reporting and execute:
        await found.sealer.end_grace(contest, closing)
    elif any(not closing.sources[name].retired for name in reporting):
        return Result(
            members | {"executed": False, "reporting": reporting, "certificate": None, "corrections": []},
            [
                f"Contest {titles}: external sources may still report: {', '.join(reporting)}.",
                "Run again with --execute to end this now and seal the resulting counts.",
            ],
        )
    await found.sealer.final(contest, closing)
    deployment.progress.begin("Reading the log", await ServedLog(deployment).size())
    with without_gc():
        certificate = await (await found.sealing(closing.seq)).certify(deployment.progress.advance)
    if execute:
        # The certificate first, so that every sealed contest has one.
        await save(deployment.store, certificate)
        await found.sealer.seal(contest, Seal(certificate.seq, certificate.sha256, time.time_ns() // 1000))
    corrections = await found.corrections()
    return Result(
        members | {"executed": execute, "reporting": [], "certificate": certificate, "corrections": corrections},
        [
            *certificate_text(certificate, corrections),
            "Sealed." if execute else "Run again with --execute to seal it.",
        ],
    )


@command()
async def unseal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Allow a sealed contest to be reopened. Its certificate is kept."""
    found, titles = await SealableContest.find(deployment, contest), await read_titles(deployment, contest)
    seal = seal_of(await found.document())
    if seal is None:
        raise NotSealed("The contest is not sealed.")
    if execute:
        await found.sealer.unseal(contest)
    sealed = {"contest_key": contest, "title": titles.title, "seq": seal.seq, "sha256": seal.sha256}
    return Result(
        sealed | {"executed": execute},
        [
            f"Contest {titles}, closing {seal.seq}, sealed as {seal.sha256}.",
            "Unsealed; the certificate is kept." if execute else "Run again with --execute to unseal it.",
        ],
    )
