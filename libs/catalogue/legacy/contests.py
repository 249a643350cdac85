"""Contests in the legacy generation's read shape.

`FIELDS` says which canonical member is behind which legacy one; the functions below it make what is derived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from libs.catalogue.legacy.participants import Images, Totals, brand_of, image_read, of_participant
from libs.catalogue.schemas.contest import Contest, ParticipantOrder
from libs.catalogue.schemas.participant import Participant
from libs.contracts.catalogue import Stored
from libs.tally.contest import Phase
from libs.tally.errors import timestamp
from libs.tally.figures import Figures


class Field(NamedTuple):
    """A legacy member of a contest's read shape (its last step is also the write parameter) and what holds it."""

    legacy: str
    canonical: str
    reason: str = ""


FIELDS: Final = (
    Field("contest_type", "contest_type"),
    Field("title", "title"),
    Field("text", "description", "the legacy name of the same text"),
    Field("tags", "tags"),
    Field("custom_data", "custom_data"),
    Field("countries", "countries", "legacy only"),
    Field("categories", "categories", "legacy only"),
    Field("update_widget", "update_widget", "legacy only"),
    Field("start", "contest_config.start", "a contest's span stands among its rules in the current shape"),
    Field("end", "contest_config.end", "as start"),
    Field("contest_config.participant_order", "contest_config.participant_order"),
    Field("contest_config.is_vote_removal_allowed", "contest_config.is_vote_removal_allowed"),
    Field("contest_config.contest_visibility", "contest_config.contest_visibility", "legacy only"),
    Field("contest_config.vote_visibility", "contest_config.vote_visibility"),
    Field("contest_config.limit_result_amount", "contest_config.limit_result_amount"),
    Field("contest_config.randomize_locally", "contest_config.is_randomize", "the client randomizes in both"),
    Field("contest_config.show_video_play_button", "contest_config.show_video_play_button", "legacy only"),
    Field("contest_config.participant_visibility", "contest_config.participant_visibility"),
    Field("contest_config.participant_default_status", "contest_config.participant_default_status", "legacy only"),
    Field(
        "contest_config.anonymous_voting",
        "contest_config.is_anonymous_voting_enabled",
        "free votes; paid ones have a switch of their own, paid.is_anonymous, that legacy does not name",
    ),
    Field("contest_config.ip_restriction_per_participant", "contest_config.ip_restriction_per_participant"),
    Field("free_vote_config.max_free_votes_per_participant", "contest_config.free.max_participant"),
    Field("free_vote_config.max_free_votes_in_contest", "contest_config.free.max_contest"),
    Field("star_vote_config.max_star_votes_in_contest", "contest_config.paid.max_contest", "star votes are paid"),
    Field("star_vote_config.max_star_votes_per_participant", "contest_config.paid.max_participant", "as above"),
    Field("silver_vote_config.max_silver_votes_in_contest", "contest_config.silver.max_contest", "legacy only"),
    Field(
        "silver_vote_config.max_silver_votes_per_participant", "contest_config.silver.max_participant", "as above"
    ),
)


@dataclass(frozen=True, slots=True)
class ContestPage:
    """A contest with all its participants, and what the reader of it may see.

    `account` is the legacy brand. `phase` is the contest's at the time of the read.
    """

    account: str
    phase: Phase
    contest: Stored
    participants: Sequence[Stored]
    totals: Totals
    images: Images


def contest_read(page: ContestPage) -> dict[str, Any]:
    """The contest read shape: approved participants alone, in an order that never shows hidden counts."""
    record = Contest.model_validate(page.contest.document)
    entries = [(stored, Participant.model_validate(stored.document)) for stored in page.participants]
    approved = [(stored, entry) for stored, entry in entries if (entry.status or "approved") == "approved"]
    order = record.contest_config.participant_order
    shown = _in_order(approved, order, page.totals)
    counts = [of_participant(page.totals, stored.key) for stored, _ in approved]
    users = {
        ("user", entry.user.user_id) if entry.user and entry.user.user_id else ("entry", stored.key)
        for stored, entry in approved
    }
    voters = of_participant(page.totals, "")
    shape: dict[str, Any] = {
        "contest_id": page.contest.key,
        "phase": str(page.phase),
        "brand": brand_of(page.account),
        "total_vote_count": None if page.totals is None else sum(each.count for each in counts if each),
        "unique_voter_count": voters.unique if voters else None,
        "participant_count": len(approved),
        "unique_participant_count": len(users),
        "published": page.phase is not Phase.SETUP,
        "created": timestamp(page.contest.created),
        "image": image_read(record.image.get("key"), page.account, page.images),
    }
    document = record.shown()
    for field in FIELDS:
        _put(shape, field.legacy, _get(document, field.canonical))
    shape["participants"] = [_listed(page, stored, entry) for stored, entry in shown]
    return shape


def _listed(page: ContestPage, stored: Stored, entry: Participant) -> dict[str, Any]:
    """A participant inside its contest."""
    figures = of_participant(page.totals, stored.key)
    return {
        "participant_key": stored.key,
        "contest_id": page.contest.key,
        "brand": brand_of(page.account),
        "title": entry.title,
        "story": entry.story,
        "vote_count": figures.count if figures else None,
        "participated": timestamp(stored.created),
        "data": entry.data,
        "image": image_read(entry.image_key, page.account, page.images),
    }


def _in_order(
    entries: list[tuple[Stored, Participant]], order: ParticipantOrder, totals: Totals
) -> list[tuple[Stored, Participant]]:
    """Votes by the most first, equal ones and hidden ones by running number."""
    by_number = sorted(entries, key=lambda entry: entry[0].number)
    if order == "participated":
        return sorted(by_number, key=lambda entry: entry[0].created)
    if order == "vote_count" and totals is not None:
        return sorted(by_number, key=lambda entry: -totals.get(entry[0].key, Figures()).count)
    return by_number


def _get(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for step in path.split("."):
        value = value[step]
    return value


def _put(shape: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for step in outer:
        shape = shape.setdefault(step, {})
    shape[last] = value
