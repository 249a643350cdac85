"""`tally seal` and `tally unseal`: certify a closed contest's result, or withdraw that."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from libs.audit.log_fold import without_gc
from libs.catalogue.contests.closing_record import Correction, Seal, seal_of
from libs.catalogue.errors import NotSealed
from libs.certificates.service import save
from libs.contracts.certificates import Certificate
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import ContestKey, Execute, command
from services.cli.commands.certificate import SealableContest, ServedLog, certificate_text
from services.cli.contest_lookup import Titles, named
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class SealOutcome:
    """The certificate; None while external sources may still report, which `reporting` lists."""

    contest_key: str
    titles: Titles
    executed: bool
    reporting: list[str]
    certificate: Certificate | None
    corrections: Sequence[Correction] = ()


@dataclass(frozen=True, slots=True)
class Unsealed:
    """The withdrawn seal."""

    contest_key: str
    title: str
    seq: int
    sha256: str
    executed: bool


def _sealed(result: SealOutcome) -> Iterator[Block]:
    if result.certificate is None:
        yield f"Contest {result.titles}: external sources may still report: {', '.join(result.reporting)}."
        yield "Run again with --execute to end this now and seal the resulting counts."
    else:
        yield from certificate_text(result.certificate, result.corrections)
        yield "Sealed." if result.executed else "Run again with --execute to seal it."


@command(text=_sealed)
async def seal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> SealOutcome:
    """Certify the result of a closed contest from the log alone, and prevent reopening.

    External sources that may still report are ended at once.
    """
    found = await SealableContest.find(deployment, contest)
    closing = await found.sealer.closing(contest)
    reporting = await found.sealer.reporting(contest, closing)
    if reporting and execute:
        await found.sealer.end_grace(contest, closing)
    elif any(not closing.sources[name].retired for name in reporting):
        return SealOutcome(contest, await found.titles(), False, reporting, None)
    await found.sealer.final(contest, closing)
    deployment.progress.begin("Reading the log", await ServedLog(deployment).size())
    with without_gc():
        certificate = await (await found.sealing(closing.seq)).certify(deployment.progress.advance)
    if execute:
        # The certificate first, so that every sealed contest has one.
        await save(deployment.store, certificate)
        await found.sealer.seal(contest, Seal(certificate.seq, certificate.sha256, time.time_ns() // 1000))
    return SealOutcome(contest, await found.titles(), execute, [], certificate, await found.corrections())


def _unsealed(result: Unsealed) -> Iterator[Block]:
    yield f"Contest {named(result.contest_key, result.title)}, closing {result.seq}, sealed as {result.sha256}."
    yield "Unsealed; the certificate is kept." if result.executed else "Run again with --execute to unseal it."


@command(text=_unsealed)
async def unseal(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Unsealed:
    """Allow a sealed contest to be reopened. Its certificate is kept."""
    found = await SealableContest.find(deployment, contest)
    document = await found.document()
    seal = seal_of(document)
    if seal is None:
        raise NotSealed("The contest is not sealed.")
    if execute:
        await found.sealer.unseal(contest)
    return Unsealed(contest, (await found.titles()).title, seal.seq, seal.sha256, execute)
