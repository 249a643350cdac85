"""External vote sources as their readers see them: what was reported, joined with the registrations.

The fold keeps figures by a source's own ids of participants. What an id means is said by the registration, at each
read: so an id that is not mapped is held until it is, and a changed mapping moves what was counted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol

from libs.catalogue.schemas.vote_source import Mode, StoredVoteSource
from libs.contracts.catalogue import Stored
from libs.tally.counts import VoteSums

Reason = Literal["unmapped", "decrease"]


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A registration. `mapping` gives the participant's key by the source's id; `registered` is when (us)."""

    title: str
    is_in_total: bool
    mode: Mode
    mapping: Mapping[str, str]
    retired: bool
    registered: int


def source_key(contest: str, source: str) -> str:
    """The key of a registration."""
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
    """What the vote views hold of one source, by its own ids."""

    @property
    def figures(self) -> Mapping[str, VoteSums]: ...
    @property
    def held(self) -> Mapping[str, VoteSums]: ...


class Held(NamedTuple):
    """The latest report of an id that is not taken over: `counted` still counts instead of `reported`.

    An id that is mapped to no participant counts nothing; it may have gone down, too.
    """

    mapped_id: str
    reason: Reason
    reported: VoteSums
    counted: VoteSums


@dataclass(frozen=True, slots=True)
class ExternalCounts:
    """One source of one contest. `counted` is by (participant, mapped id), zero for a mapped id without a report.

    Participants that are not approved are in it: what results show is the reader's to say. Latest reported =
    counted + held, where `held` adds what each reported less what counts instead.
    """

    config: SourceConfig
    counted: Mapping[tuple[str, str], VoteSums]
    held: tuple[Held, ...]


def mapped(config: SourceConfig, participants: Collection[str]) -> dict[str, str]:
    """The participant's key by the source's id, but for those who are gone; `participants` are all there are."""
    return {mapped_id: key for mapped_id, key in config.mapping.items() if key in participants}


def split(config: SourceConfig, reported: Reported | None, participants: Collection[str]) -> ExternalCounts:
    """What of a source's figures counts, for whom, and what is held; `participants` are all of the contest's."""
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
    """Every source that a reader shows: those in use, and retired ones that reported something."""
    return {
        name: split(config, reported.get(name), participants)
        for name, config in sorted(sources.items())
        if not config.retired or ((found := reported.get(name)) is not None and found.figures)
    }
