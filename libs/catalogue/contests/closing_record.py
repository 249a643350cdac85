"""Closing, seal, reopening and phase in a contest's record. While it is closed, results derive from its closing.

The members `closing`, `reopened`, `seal` and `secret_erased` of the stored document belong to the server. So does
`titled`, of contests and of participants, `ordered`, of contests, and `judged`, of participants: when and by whom
the present title, running order and status were set. `reopened` of a show is its contest's when it was set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, NamedTuple

import orjson

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import NotClosed, NotSealed
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import Contest, ParticipantStatus, Phase
from libs.tally.errors import ContestFinal
from libs.tally.time_conversion import microseconds, parse_timestamp, timestamp

LONG_AGO: Final = 0


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


CorrectedMember = Literal["title", "status", "running_order"]
SET_BY: Final[Mapping[CorrectedMember, str]] = {"title": "titled", "status": "judged", "running_order": "ordered"}
"""The server's member with when, and by whom, a record's member was set."""


class Correction(NamedTuple):
    """A title, a status that decides on approval, or the running order, which was changed after the closing; it is
    the contest's if `participant` is None.

    `before` is that of the closing, `after` the present one, which was set at `at` (us), `by` an API key
    ("key <id>") or another actor; "" if that is not known. A changed status waits for the reopening. A running
    order has the keys of the result's participants.
    """

    participant: str | None
    member: CorrectedMember
    before: str | Sequence[str]
    after: str | Sequence[str]
    at: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class Seal:
    """Seal of closing number `seq`, whose certificate has this `sha256`. `sealed_at` is in us."""

    seq: int
    sha256: str
    sealed_at: int


def closing_of(document: Document) -> Closing | None:
    """Return the current closing, or None."""
    kept = document.get("closing")
    if kept is None:
        return None
    sources = {name: SourceConfig(**source) for name, source in kept["sources"].items()}
    participants = tuple(ClosedParticipant(*each) for each in kept["participants"])
    return Closing(kept["seq"], kept["end"], kept["title"], participants, sources, kept.get("sources_until"))


def in_running_order(config: ContestRecords) -> list[Stored]:
    """Return the participants in the contest's running order; those that it does not name follow by number."""
    named = () if config.contest is None else config.contest.document.get("running_order", ())
    return _arranged(config.participants, named)


def _arranged(participants: Sequence[Stored], keys: Sequence[str]) -> list[Stored]:
    places = {key: place for place, key in enumerate(keys)}
    return sorted(participants, key=lambda stored: (places.get(stored.key, len(places)), stored.number))


def corrections(config: ContestRecords) -> list[Correction]:
    """Return the titles, order and statuses of approval that differ from those of the closing in force."""
    closing = None if config.contest is None else closing_of(config.contest.document)
    if closing is None or config.contest is None:
        return []
    then = {each.key: each for each in closing.participants}
    found = [_correction(None, config.contest, "title", closing.title, title_of(config.contest))]
    approved = closing.approved & {stored.key for stored in config.participants}
    was = [each.key for each in closing.participants if each.key in approved]
    order = [stored.key for stored in in_running_order(config) if stored.key in approved]
    found.append(_correction(None, config.contest, "running_order", was, order))
    for stored in config.participants:
        if (closed := then.get(stored.key)) is not None:
            status = status_of(stored)
            found.append(_correction(stored.key, stored, "title", closed.title, title_of(stored)))
            if "approved" in (closed.status, status):
                found.append(_correction(stored.key, stored, "status", closed.status, status))
    return [each for each in found if each is not None]


def _correction(
    key: str | None,
    stored: Stored,
    member: CorrectedMember,
    before: str | Sequence[str] | None,
    after: str | Sequence[str],
) -> Correction | None:
    """Return the correction of a member that was `before` at the closing; None if it is the same, or unknown."""
    if before is None or before == after:
        return None
    change = stored.document.get(SET_BY[member], {})
    return Correction(key, member, before, after, change.get("at", stored.updated), change.get("by", ""))


def title_of(stored: Stored) -> str:
    """Return the record's title, or ""."""
    return stored.document.get("title") or ""


def status_of(participant: Stored) -> ParticipantStatus:
    """Return the status in a participant's record."""
    status: ParticipantStatus = participant.document.get("status", "approved")
    return status


def as_closed(config: ContestRecords) -> ContestRecords:
    """Return the records with the titles and the order of the closing in force: a result names what was voted for.

    Participants that were created later follow. Without a closing the order is the present one.
    """
    closing = None if config.contest is None else closing_of(config.contest.document)
    if closing is None or config.contest is None:
        return replace(config, participants=tuple(in_running_order(config)))
    corrected = [each for each in corrections(config) if each.member == "title"]
    ordered = _arranged(config.participants, [each.key for each in closing.participants])
    then = {each.key: each.title for each in closing.participants} | {None: closing.title}
    keys = {each.participant for each in corrected}

    def entitled(stored: Stored, key: str | None) -> Stored:
        if key not in keys:
            return stored
        return replace(stored, record=orjson.dumps(stored.document | {"title": then[key] or None}).decode())

    return replace(
        config,
        contest=entitled(config.contest, None),
        participants=tuple(entitled(stored, stored.key) for stored in ordered),
    )


def seal_of(document: Document) -> Seal | None:
    """Return the current seal, or None."""
    kept = document.get("seal")
    return None if kept is None else Seal(**kept)


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


def reopened(document: Document, end: int) -> Document:
    """Reopen the document of a closed contest until `end` (us). Idempotent.

    Raises `NotClosed`, and `ContestFinal` if the contest is sealed or its secret was destroyed.
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
    raise NotClosed("The contest is not closed: change its end instead.")


def without_grace(document: Document, seq: int, now: int) -> Document:
    """End the grace period of a closed contest's external sources at `now` (us). Idempotent.

    Raises `NotClosed` unless closing `seq` is the current one.
    """
    closing = _closing(document, seq)
    return document if "sources_until" in closing else document | {"closing": closing | {"sources_until": now}}


def sealed(document: Document, seal: Seal) -> Document:
    """Add `seal` to the document of a contest. Idempotent.

    Raises `NotClosed` unless closing `seal.seq` is the current one, `ContestFinal` if another result is sealed.
    """
    _closing(document, seal.seq)
    before = seal_of(document)
    if before is None:
        return document | {"seal": asdict(seal)}
    if before.sha256 != seal.sha256:
        raise ContestFinal(f"The contest is already sealed with another certificate: {before.sha256}.")
    return document


def unsealed(document: Document) -> Document:
    """Remove the seal from the document. Raises `NotSealed`."""
    if not is_sealed(document):
        raise NotSealed("The contest is not sealed.")
    return {name: value for name, value in document.items() if name != "seal"}


def is_sealed(document: Document) -> bool:
    return "seal" in document


def is_erased(document: Document) -> bool:
    """Return whether the contest's secret is destroyed, or about to be."""
    return "secret_erased" in document


def erased(document: Document, now: int) -> Document:
    """Mark the secret of a sealed contest as destroyed at `now` (us). Idempotent.

    Raises `NotSealed`.
    """
    if not is_erased(document) and not is_sealed(document):
        raise NotSealed("The contest is not sealed: its secret is needed until `tally seal` has been run.")
    return {"secret_erased": now} | document


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


def _closing(document: Document, seq: int) -> Document:
    closing: Document = document.get("closing") or {}
    if closing.get("seq") != seq:
        raise NotClosed(f"Closing {seq} is no longer current: the contest was reopened.")
    return closing
