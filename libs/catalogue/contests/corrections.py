"""Titles, statuses and running order that were changed after a contest's closing.

The members `titled`, of contests and of participants, `ordered`, of contests, and `judged`, of participants,
belong to the server: when and by whom the present title, running order and status were set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

import orjson

from libs.catalogue.contests.closing_record import closing_of, status_of, title_of
from libs.contracts.catalogue_events import ContestRecords, Stored

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
