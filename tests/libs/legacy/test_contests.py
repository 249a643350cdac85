"""The legacy read shapes of a contest and its participants, made of canonical records."""

from typing import Any

import orjson
import pytest

from libs.catalogue.schemas.contest import Contest
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.legacy.contests import FIELDS, ContestPage, contest_read, contest_written
from libs.legacy.participants import participant_read
from libs.tally.contest import Phase
from libs.tally.counts import VoteSums
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


def keys(shape: dict[str, Any]) -> list[str]:
    return [participant["participant_key"] for participant in shape["participants"]]


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
    ("order", "expected"),
    [
        ("participated", ["p1", "p2", "p3"]),
        ("running_number", ["p1", "p2", "p3"]),
        ("vote_count", ["p3", "p1", "p2"]),
    ],
)
def test_participants_come_in_the_order_of_the_contest(order: str, expected: list[str]) -> None:
    totals = {"p3": VoteSums(2, 1, 0)}
    shape = contest_read(
        page({"contest_config": {"participant_order": order}}, entry(3), entry(1), entry(2), totals=totals)
    )
    assert keys(shape) == expected


def test_published_false_keeps_a_future_publish_clears_a_past_one_and_contradicts_one_beside_it() -> None:
    past, future = timestamp(CREATED - 1), timestamp(CREATED + 1)
    assert contest_written({"published": False}, {"publish": future}, CREATED) == {"publish": future}
    assert contest_written({"published": False}, {"publish": past}, CREATED) == {}
    assert contest_written({"published": False, "publish": future}, {}, CREATED) == {"publish": future}
    assert contest_written({"published": False, "publish": "0"}, {}, CREATED) == {"publish": "0"}
    with pytest.raises(ValidationFailed, match="published"):
        contest_written({"published": False, "publish": past}, {}, CREATED)


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


def test_a_participant_shows_its_figures_its_user_and_its_image() -> None:
    user = {"user_id": "ann", "user_name": "Ann", "image_id": None}
    one = entry(4, title="Ann", story="sings", image_key="i1", user=user)
    shape = participant_read("acme", one, {"p4": VoteSums(5, 3, 1)}, {"i1": {"ratio": 1.5, "tags": ["x"]}})
    assert (shape["image"]["ratio"], shape["image"]["user"], shape["user"]) == (1.5, user, user)
    assert (shape["vote_count"], shape["rater_count"], shape["status"]) == (5, 3, "approved")
    assert (shape["contest_id"], shape["contest_key"], shape["running_number"]) == ("song", "song", 4)
    assert shape["participated"] == "2026-09-21T14:13:20.000004Z"
