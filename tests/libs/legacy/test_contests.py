"""The legacy read shapes of a contest and its participants, made of canonical records."""

from typing import Any

import orjson
import pytest

from libs.catalogue.schemas.contest import Contest
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.legacy.contests import FIELDS, ContestPage, contest_read, contest_written
from libs.tally.contest import Phase
from libs.tally.time_conversion import timestamp

CREATED = 1_790_000_000_000_000


def stored(key: str, document: dict[str, Any], number: int = 0, parent: str = "") -> Stored:
    return Stored(key, 7, CREATED + number, CREATED + number, number, parent, orjson.dumps(document).decode())


def entry(number: int, **document: Any) -> Stored:
    return stored(f"p{number}", {"status": "approved"} | document, number, "song")


def page(document: dict[str, Any], *participants: Stored, **changes: Any) -> ContestPage:
    given: dict[str, Any] = {
        "account": "acme",
        "phase": Phase.RUNNING,
        "contest": stored("song", document),
        "participants": participants,
        "totals": {},
        "images": {},
    }
    return ContestPage(**(given | changes))


def test_every_row_of_the_table_reads_what_the_canonical_record_holds() -> None:
    document = {
        "contest_type": "participation",
        "title": "Song",
        "description": "Of the year",
        "tags": ["pop"],
        "custom_data": {"a": 1},
        "countries": ["SE"],
        "categories": [{"category": "music"}],
        "update_widget": True,
        "contest_config": {
            "start": "2026-05-01T20:00:00+02:00",
            "end": "2026-05-02T18:00:00Z",
            "participant_order": "vote_count",
            "is_vote_removal_allowed": False,
            "contest_visibility": "not_listed",
            "vote_visibility": "hidden",
            "limit_result_amount": 3,
            "is_randomize": True,
            "show_video_play_button": True,
            "participant_visibility": "owner_only",
            "participant_default_status": "pending",
            "is_anonymous_voting_enabled": True,
            "ip_restriction_per_participant": 4,
            "free": {"max_participant": 5, "max_contest": 6},
            "paid": {"max_participant": 7, "max_contest": 8},
            "silver": {"max_participant": 9, "max_contest": 10},
        },
    }
    shape = contest_read(page(document))
    shown = Contest.model_validate({}).shown()
    for field in (each for each in FIELDS if each.reads):
        found, default = shape, shown
        for step in field.legacy.split("."):
            found = found[step]
        for step in field.canonical.split("."):
            default = default[step]
        assert found != default, f"{field.legacy} shows the default of {field.canonical}"
    assert shape["text"] == "Of the year"
    assert shape["start"] == "2026-05-01T18:00:00.000000Z"
    assert shape["star_vote_config"] == {"max_star_votes_per_participant": 7, "max_star_votes_in_contest": 8}


def test_unique_participants_are_distinct_users_and_those_without_one() -> None:
    ann, no_id = {"user_id": "ann"}, {"user_name": "?"}
    entries = entry(1, user=ann), entry(2, user=ann), entry(3), entry(4), entry(5, user=no_id)
    shape = contest_read(page({}, *entries))
    assert (shape["participant_count"], shape["unique_participant_count"]) == (5, 4)


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [
        ({"published": False, "publish": 1}, False),
        ({"published": False, "publish": -1}, True),
        ({"published": True, "publish": -1, "start": 1}, False),
        ({"published": True, "publish": 1}, True),
        ({"published": True, "publish": 1, "start": -1}, True),
        ({"published": True, "publish": 2, "start": 1}, True),
        ({"published": True, "publish": 1, "start": 2}, False),
    ],
)
def test_published_and_publish_agree_or_are_refused(body: dict[str, Any], is_refused: bool) -> None:
    sent = {name: value if name == "published" else timestamp(CREATED + value) for name, value in body.items()}
    for before in (None, {"publish": timestamp(CREATED)}):
        if is_refused:
            with pytest.raises(ValidationFailed, match="published"):
                contest_written(sent, before, CREATED)
        else:
            assert contest_written(sent, before, CREATED)["publish"] == sent["publish"]
