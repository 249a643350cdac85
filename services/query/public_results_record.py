"""The public results record of a contest, for voters."""

from typing import Any

from libs.catalogue.contests.participant_order import listed
from libs.catalogue.schemas.participant import Participant
from libs.contracts.catalogue import Stored
from libs.results.results import places
from libs.tally.time import timestamp
from services.query.responses import Answer, encoded
from services.query.snapshot import Snapshot
from services.query.vote_count_record import last_update


def shown(snapshot: Snapshot) -> Answer:
    return encoded(record(snapshot, hidden=False), [snapshot.visibility], [])


def hidden(snapshot: Snapshot) -> Answer:
    return encoded(record(snapshot, hidden=True), [snapshot.visibility], [])


def record(snapshot: Snapshot, hidden: bool) -> dict[str, Any]:
    """Build the record. Ranks are by votes in any order, ties share theirs; without votes every share is 0.

    While `hidden` nothing in it depends on votes: `updated` is then the last change to the contest's records.
    """
    totals = snapshot.results.totals
    votes = None if hidden else {key: totals[key].count for key in snapshot.results.participants}
    rules = snapshot.record.contest_config
    ranks = places((votes or {}).values())

    def entry(stored: Stored) -> dict[str, Any]:
        participant = Participant.model_validate(stored.document)
        count = None if votes is None else votes[stored.key]
        return {
            "participant_key": stored.key,
            "title": participant.title,
            "image": {"key": participant.image_key} if participant.image_key else None,
            "rank": None if count is None else ranks[count],
            "count": count,
            "share": None if count is None else count / max(1, totals[""].count),
        }

    entries = [] if rules.participant_visibility == "owner_only" else listed(snapshot.approved, rules, votes)
    records = snapshot.stored, *snapshot.config.participants
    return {
        "contest_key": snapshot.contest.key,
        "phase": snapshot.phase,
        "final": snapshot.results.final,
        "participants": [entry(stored) for stored in entries],
        "count": None if hidden else totals[""].count,
        "updated": timestamp(max(stored.updated for stored in records)) if hidden else last_update(snapshot),
    }
