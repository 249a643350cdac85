"""The public results record of a contest, for voters."""

from typing import Any

from libs.catalogue.contests.contest_mapper import listed
from libs.catalogue.schemas.contest import Participant
from libs.contracts.catalogue_events import Stored
from libs.results.contest_results import places, rank_keys
from libs.tally.contest import MILLION
from libs.tally.time_conversion import timestamp
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.vote_count_record import last_update


def shown(snapshot: Snapshot) -> EncodedResponse:
    return encoded(record(snapshot, hidden=False), [snapshot.visibility], [])


def hidden(snapshot: Snapshot) -> EncodedResponse:
    return encoded(record(snapshot, hidden=True), [snapshot.visibility], [])


def record(snapshot: Snapshot, hidden: bool) -> dict[str, Any]:
    """Build the record. Ranks follow `RankKey` in any order, ties share theirs; without votes every share is 0.

    While `hidden` nothing in it depends on votes: `updated` is then the last change to the contest's records.
    """
    totals, kind = snapshot.results.totals, snapshot.contest.contest_type
    order = None if hidden else rank_keys(kind, snapshot.counts, snapshot.results)
    rules = snapshot.record.contest_config
    ranks = places((order or {}).values())

    def entry(stored: Stored) -> dict[str, Any]:
        participant = Participant.model_validate(stored.document)
        key = None if order is None else order[stored.key]
        average = None if key is None or key.average < 0 else key.average / MILLION
        return {
            "participant_key": stored.key,
            "title": participant.title,
            "image": {"key": participant.image_key} if participant.image_key else None,
            "rank": None if key is None else ranks[key],
            "count": None if key is None else key.votes,
            "share": None if key is None else key.votes / max(1, totals[""].count),
            **({"average": average} if kind == "rating" else {}),
        }

    entries = [] if rules.participant_visibility == "owner_only" else listed(snapshot.approved, rules, order)
    records = snapshot.stored, *snapshot.config.participants
    return {
        "contest_key": snapshot.contest.key,
        "phase": snapshot.phase,
        "final": snapshot.results.final,
        "participants": [entry(stored) for stored in entries],
        "count": None if hidden else totals[""].count,
        "updated": timestamp(max(stored.updated for stored in records)) if hidden else last_update(snapshot),
    }
