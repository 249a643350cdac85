"""Details beside the counts, for readers without `content:read`: titles, images, held counts, and the seal."""

from typing import Any

from libs.catalogue.contests.closing_record import title_of
from libs.catalogue.contests.seals import seal_of
from libs.catalogue.contests.vote_sources import external_counts
from libs.catalogue.schemas.contest import Participant
from libs.contracts.catalogue_events import Stored
from libs.tally.time_conversion import timestamp
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded


def details_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the body of a stream's `details` event; it depends on the records only, not on votes."""
    return encoded(details(snapshot), [], [])


def screen_details_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the same for an audience: it does not name who made corrections."""
    return encoded(details(snapshot) | {"corrections": corrections_of(snapshot)}, [], [])


def linked_details_answer(snapshot: Snapshot) -> EncodedResponse:
    """Build the same for a link, which names no participants that public results do not name."""
    if snapshot.names_participants:
        return screen_details_answer(snapshot)
    nobody: dict[str, Any] = {"running_order": [], "participants": {}}
    return encoded(
        details(snapshot) | nobody | {"corrections": corrections_of(snapshot, without_key=True)}, [], []
    )


def details(snapshot: Snapshot) -> dict[str, Any]:
    """Build the details of the contest and of its approved participants."""
    approved = [stored for stored in snapshot.named if snapshot.contest.participants.get(stored.key) == "approved"]
    numbers = displayed_numbers(snapshot)
    seal = seal_of(snapshot.stored.document)
    sealed = None if seal is None else {"sha256": seal.sha256, "sealed_at": timestamp(seal.sealed_at)}
    return {
        "title": snapshot.record.title,
        "image": _image(snapshot.record.image.get("key")),
        "seal": sealed,
        "corrections": corrections_of(snapshot, names=True),
        "running_order": [stored.key for stored in approved],
        "participants": {stored.key: _participant(stored, numbers[stored.key]) for stored in approved},
    }


def displayed_numbers(snapshot: Snapshot) -> dict[str, str]:
    """Return the number of each participant that people see: the one that the account has set, else its place in
    the running order, which stays when another one is disqualified."""
    return {
        stored.key: stored.document.get("number_string") or str(place)
        for place, stored in enumerate(snapshot.named, start=1)
    }


def with_details(record: dict[str, Any], snapshot: Snapshot) -> dict[str, Any]:
    """Add the details to a vote count record."""
    found = details(snapshot)
    participants = found.pop("participants")
    entries = {key: entry | participants.get(key, {}) for key, entry in record["participants"].items()}
    return record | found | {"participants": entries}


def with_held(record: dict[str, Any], snapshot: Snapshot) -> dict[str, Any]:
    """Add to each external source the votes that were reported and do not count: unmapped, or a decrease."""
    sources = external_counts(snapshot.sources, snapshot.counts.sources, snapshot.contest.participants)
    for entry in record.get("total_vote_sources", ()):
        if (source := sources.get(entry["source"])) is not None:
            entry["held"] = [
                {"mapped_id": held.mapped_id, "reason": held.reason, "count": held.reported.count}
                for held in source.held
            ]
    return record


def corrections_of(snapshot: Snapshot, *, names: bool = False, without_key: bool = False) -> list[dict[str, Any]]:
    """Build what was changed after the closing; results have the titles and statuses of the closing.

    It `names` who changed it, and participants that are in no result, to readers with a key. Those `without_key`
    receive titles only of participants in results, and nothing of participants where these are not named.
    """
    found = snapshot.corrections
    if without_key and not snapshot.names_participants:
        found = [each for each in found if each.participant is None and each.member == "title"]
    elif without_key:
        results = snapshot.results.participants
        found = [each for each in found if each.member != "title" or each.participant in (None, *results)]
    titles = {stored.key: title_of(stored) for stored in snapshot.named}
    return [
        {
            "participant_key": each.participant,
            "member": each.member,
            "before": each.before or None,
            "after": each.after or None,
            "corrected": timestamp(each.at),
            **({"title": titles.get(each.participant or ""), "corrected_by": each.by or None} if names else {}),
        }
        for each in found
    ]


def _participant(stored: Stored, number: str) -> dict[str, Any]:
    record = Participant.model_validate(stored.document)
    return {
        "title": record.title,
        "image": _image(record.image_key),
        "color": record.color,
        "running_number": stored.number,
        "number_string": number,
    }


def _image(key: str | None) -> dict[str, str] | None:
    return {"key": key} if key else None
