"""The closing in a contest's record, and the phase. While a contest is closed, results derive from its closing.

The members `closing` and `reopened` of the stored document belong to the server. `reopened` of a show is its
contest's when it was set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import NotClosed
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import Contest, ParticipantStatus, Phase
from libs.tally.time_conversion import microseconds, parse_timestamp


class ClosedParticipant(NamedTuple):
    """A participant at the closing. `title` is "" without one, None if the titles did not fit into the record."""

    key: str
    status: ParticipantStatus
    title: str | None


@dataclass(frozen=True, slots=True)
class Closing:
    """Closing number `seq` of a contest, which ended at `end` (us).

    `title` is the contest's, "" without one. `participants` are in running order; the `approved` count.
    `sources` are the external sources at the closing; they can report until `sources_until` (us), or if None until
    the end of their grace period.
    """

    seq: int
    end: int
    title: str
    participants: Sequence[ClosedParticipant]
    sources: Mapping[str, SourceConfig]
    sources_until: int | None = None

    @property
    def approved(self) -> frozenset[str]:
        return frozenset(each.key for each in self.participants if each.status == "approved")


def closing_of(document: Document) -> Closing | None:
    """Return the current closing, or None."""
    kept = document.get("closing")
    if kept is None:
        return None
    sources = {name: SourceConfig(**source) for name, source in kept["sources"].items()}
    participants = tuple(ClosedParticipant(*each) for each in kept["participants"])
    return Closing(kept["seq"], kept["end"], kept["title"], participants, sources, kept.get("sources_until"))


def title_of(stored: Stored) -> str:
    """Return the record's title, or ""."""
    return stored.document.get("title") or ""


def status_of(participant: Stored) -> ParticipantStatus:
    """Return the status in a participant's record."""
    status: ParticipantStatus = participant.document.get("status", "approved")
    return status


def reopened_of(document: Document) -> int:
    """Return the number of the last reopened closing, or 0; of a show that of the time at which it was set."""
    seq: int = document.get("reopened", 0)
    return seq


def show_in_force(config: ContestRecords) -> Document:
    """Return the stored show, or the default one: a reopening ends what was set for the closing before it."""
    if config.contest is None or config.show is None:
        return {}
    show = config.show.document
    return show if reopened_of(show) == reopened_of(config.contest.document) else {}


def votes_from(document: Document) -> int:
    """Return the number of the first partition of the contest's votes topic."""
    first: int = document.get("votes_from", 0)
    return first


def closed(
    document: Document,
    contest: Contest,
    titles: Mapping[str, str],
    sources: Mapping[str, SourceConfig],
    end: int,
) -> Document:
    """Add the next closing to the document of `contest`, which ended at `end` (us).

    `titles` are the participants' by key.
    """
    closing = {
        "seq": contest.reopened + 1,
        "end": end,
        "title": document.get("title") or "",
        "participants": [[key, status, titles.get(key)] for key, status in contest.participants.items()],
        "sources": {name: asdict(source) for name, source in sources.items()},
    }
    return document | {"closing": closing}


def without_grace(document: Document, seq: int, now: int) -> Document:
    """End the grace period of a closed contest's external sources at `now` (us). Idempotent.

    Raises `NotClosed` unless closing `seq` is the current one.
    """
    closing = current_closing(document, seq)
    return document if "sources_until" in closing else document | {"closing": closing | {"sources_until": now}}


def phase_of(document: Document, now: int) -> Phase:
    """Return the phase at `now` (us) of the contest with this stored document."""
    rules, closing = document.get("contest_config", {}), closing_of(document)
    return Contest(
        key="",
        account="",
        version=0,
        publish=_us(document.get("publish")),
        start=_us(rules.get("start")),
        end=_us(rules.get("end")),
        closed=0 if closing is None else closing.seq,
    ).phase(now)


def _us(text: str | None) -> int | None:
    return None if text is None else microseconds(parse_timestamp(text))


def current_closing(document: Document, seq: int) -> Document:
    """Return the stored closing `seq`. Raises `NotClosed` unless it is the current one."""
    closing: Document = document.get("closing") or {}
    if closing.get("seq") != seq:
        raise NotClosed(f"Closing {seq} is no longer current: the contest was reopened.")
    return closing
