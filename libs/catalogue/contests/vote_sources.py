"""Joins the reported counts of external vote sources with their registrations.

The fold stores counts by a source's own ids of participants. Each read maps the ids to participants by the
registration: reports of an unmapped id are held until it is mapped, and a changed mapping moves its counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol

from libs.catalogue.schemas.contest import Mode, StoredVoteSource
from libs.contracts.catalogue_events import Stored
from libs.tally.counts import VoteSums

Reason = Literal["unmapped", "decrease"]


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A registration. `mapping` maps the source's ids to participant keys; `registered` is its time (us)."""

    title: str
    is_in_total: bool
    mode: Mode
    mapping: Mapping[str, str]
    retired: bool
    registered: int


def source_key(contest: str, source: str) -> str:
    """Return the key of a registration."""
    return f"{contest}~{source}"


def source_name(registration: Stored) -> str:
    return registration.key.rsplit("~", 1)[1]


def source_of(registration: Stored) -> SourceConfig:
    record = StoredVoteSource.model_validate(registration.document)
    return SourceConfig(
        title=record.title or source_name(registration),
        is_in_total=record.is_in_total,
        mode=record.mode,
        mapping=record.mapping,
        retired=record.retired,
        registered=registration.created,
    )


class Reported(Protocol):
    """Counts of one source in the vote views, by its own ids."""

    @property
    def figures(self) -> Mapping[str, VoteSums]: ...
    @property
    def held(self) -> Mapping[str, VoteSums]: ...


class Held(NamedTuple):
    """The latest report of an id that is held back: `counted` counts instead of `reported`.

    An unmapped id counts nothing; its report may also be a decrease.
    """

    mapped_id: str
    reason: Reason
    reported: VoteSums
    counted: VoteSums


@dataclass(frozen=True, slots=True)
class ExternalCounts:
    """Counts of one source of one contest. `counted` is by (participant, mapped id), zero without a report.

    It includes participants that are not approved; callers filter them. The latest reported total is the sum of
    `counted` and of reported - counted over `held`.
    """

    config: SourceConfig
    counted: Mapping[tuple[str, str], VoteSums]
    held: tuple[Held, ...]


def mapped(config: SourceConfig, participants: Collection[str]) -> dict[str, str]:
    """Return participant keys by the source's ids, without deleted participants; `participants` are all others."""
    return {mapped_id: key for mapped_id, key in config.mapping.items() if key in participants}


def split(config: SourceConfig, reported: Reported | None, participants: Collection[str]) -> ExternalCounts:
    """Split a source's reports into counted and held; `participants` are all participants of the contest."""
    mapping = mapped(config, participants)
    figures, waiting = (reported.figures, reported.held) if reported is not None else ({}, {})
    counted = {(key, mapped_id): figures.get(mapped_id, VoteSums()) for mapped_id, key in sorted(mapping.items())}
    held = []
    for mapped_id, latest in sorted({**figures, **waiting}.items(), key=itemgetter(0)):
        if mapped_id not in mapping:
            held.append(Held(mapped_id, "unmapped", latest, VoteSums()))
        elif mapped_id in waiting:
            held.append(Held(mapped_id, "decrease", latest, figures[mapped_id]))
    return ExternalCounts(config, counted, tuple(held))


def external_counts(
    sources: Mapping[str, SourceConfig], reported: Mapping[str, Reported], participants: Collection[str]
) -> dict[str, ExternalCounts]:
    """Return the counts of all active sources, and of retired ones with reports."""
    return {
        name: split(config, reported.get(name), participants)
        for name, config in sorted(sources.items())
        if not config.retired or ((found := reported.get(name)) is not None and found.figures)
    }
