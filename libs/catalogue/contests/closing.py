"""What a contest's record keeps of its closing: by this the contest is counted until it is reopened.

The members `closing`, `reopened`, `seal` and `secret_erased` of the stored document belong to the server.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import NotClosed, NotSealed
from libs.catalogue.resource import Document
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.tally.contest import Contest, finish
from libs.tally.errors import ContestFinal
from libs.tally.time import microseconds, timestamp

LONG_AGO: Final = 0


@dataclass(frozen=True, slots=True)
class Closing:
    """The closing number `seq` of a contest, which ended at `end` (us).

    Only the participants in `approved` count, and `sources` are the external sources, as they were then. Those may
    report until `sources_until` (us) at the latest; None: for all of their grace.
    """

    seq: int
    end: int
    approved: Collection[str]
    sources: Mapping[str, SourceConfig]
    sources_until: int | None = None


@dataclass(frozen=True, slots=True)
class Seal:
    """The closing number `seq` was sealed: its certificate has this `sha256`."""

    seq: int
    sha256: str
    sealed_at: int


def closing_of(document: Document) -> Closing | None:
    """The closing in force."""
    kept = document.get("closing")
    if kept is None:
        return None
    sources = {name: SourceConfig(**source) for name, source in kept["sources"].items()}
    return Closing(kept["seq"], kept["end"], frozenset(kept["approved"]), sources, kept.get("sources_until"))


def seal_of(document: Document) -> Seal | None:
    """The seal in force."""
    kept = document.get("seal")
    return None if kept is None else Seal(**kept)


def reopened_of(document: Document) -> int:
    """The number of the last closing that was reopened; 0 before there was one."""
    seq: int = document.get("reopened", 0)
    return seq


def closed(document: Document, contest: Contest, sources: Mapping[str, SourceConfig], end: int) -> Document:
    """The document of `contest`, which ended at `end` (us), with its next closing."""
    closing = {
        "seq": contest.reopened + 1,
        "end": end,
        "approved": [key for key, status in contest.participants.items() if status == "approved"],
        "sources": {name: asdict(source) for name, source in sources.items()},
    }
    return document | {"closing": closing}


def reopened(document: Document, end: int) -> Document:
    """The document of a closed contest as it runs on until `end` (us); where it does already, the same.

    Raises `NotClosed`, and `ContestFinal` while it is sealed, and for good where its secret was destroyed.
    """
    if is_erased(document):
        raise ContestFinal("The contest's secret was destroyed: it can never be reopened.")
    if is_sealed(document):
        raise ContestFinal("The contest is sealed: unseal it first (`tally unseal`).")
    config = document.get("contest_config", {}) | {"end": timestamp(end)}
    closing = closing_of(document)
    if closing is not None:
        rest = {name: value for name, value in document.items() if name != "closing"}
        return rest | {"reopened": closing.seq, "contest_config": config}
    if reopened_of(document) and document["contest_config"] == config:
        return document
    raise NotClosed("The contest is not closed: its end can be changed as it is.")


def without_grace(document: Document, seq: int, now: int) -> Document:
    """The document of a closed contest whose external sources report no more from `now` (us) on, if not before.

    Raises `NotClosed` unless its closing is number `seq`.
    """
    closing = _closing(document, seq)
    return document if "sources_until" in closing else document | {"closing": closing | {"sources_until": now}}


def sealed(document: Document, seal: Seal) -> Document:
    """The document of a contest whose closing number `seal.seq` is sealed; where it is already, the same.

    Raises `NotClosed` where that closing is not in force, `ContestFinal` where it is sealed as another result.
    """
    _closing(document, seal.seq)
    before = seal_of(document)
    if before is None:
        return document | {"seal": asdict(seal)}
    if before.sha256 != seal.sha256:
        raise ContestFinal(f"The contest is sealed already, by another certificate: {before.sha256}.")
    return document


def unsealed(document: Document) -> Document:
    """The document without its seal. Raises `NotSealed`."""
    if not is_sealed(document):
        raise NotSealed("The contest is not sealed.")
    return {name: value for name, value in document.items() if name != "seal"}


def is_sealed(document: Document) -> bool:
    return "seal" in document


def is_erased(document: Document) -> bool:
    """Whether the contest's secret is destroyed, or about to be."""
    return "secret_erased" in document


def erased(document: Document, now: int) -> Document:
    """The document of a sealed contest whose secret is destroyed from `now` (us) on; where it is, the same.

    Raises `NotSealed`.
    """
    if not is_erased(document) and not is_sealed(document):
        raise NotSealed("The contest is not sealed: its secret is needed until `tally seal` has been run.")
    return {"secret_erased": now} | document


def judge_change(before: Document, after: Document) -> None:
    """Refuses what would move the end of a closed contest, or show its result as another one."""
    if "closing" in before and _result(before) != _result(after):
        raise ContestFinal("The contest is closed: its start, end, type and scale stay, unless it is reopened.")


def due(document: Document) -> int | None:
    """When somebody has to look at the contest: at its end; at once when it was changed behind a closing."""
    if "closing" in document or "reopened" in document:
        return LONG_AGO
    record = ContestRecord.model_validate(document)
    moments = record.publish, record.contest_config.start, record.contest_config.end
    return finish(*(None if moment is None else microseconds(moment) for moment in moments))


def _closing(document: Document, seq: int) -> Document:
    closing: Document = document.get("closing") or {}
    if closing.get("seq") != seq:
        raise NotClosed(f"Closing {seq} is not in force: the contest was reopened.")
    return closing


def _result(document: Document) -> tuple[Any, ...]:
    rules = document.get("contest_config", {})
    scale = [item.get("sub_rating_id") for item in (rules.get("rating") or {}).get("sub_rating_configs", ())]
    return rules.get("start"), rules.get("end"), document.get("contest_type", "voteonly"), scale
