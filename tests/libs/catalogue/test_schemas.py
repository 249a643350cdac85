"""Accepted request bodies, member by member."""

from typing import Any

import pytest

from libs.catalogue.resource_table import RESOURCES
from libs.catalogue.schemas.base import Members
from libs.catalogue.schemas.contest import Contest, Participant
from libs.contracts.validation import ValidationFailed, checked


def pointers(schema: Any, body: dict[str, Any]) -> list[str]:
    try:
        checked(schema, body)
    except ValidationFailed as error:
        return sorted(problem["pointer"] for problem in error.data["errors"])
    return []


@pytest.mark.parametrize(
    ("schema", "body", "wrong"),
    [
        (Contest, {"unknown": None, "title": None}, ["/unknown"]),
        (Contest, {"tags": ["a", 1]}, ["/tags/1"]),
        (Contest, {"contest_config": {"a/b~c": 1}}, ["/contest_config/a~1b~0c"]),
        (Contest, {"contest_config": {"rating": {"max_rating": 1_001}}}, ["/contest_config/rating/max_rating"]),
        (
            Contest,
            {"contest_config": {"renew_free_vote": {"days_between": 36_501}}},
            ["/contest_config/renew_free_vote/days_between"],
        ),
        (
            Contest,
            {"contest_config": {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}},
            ["/contest_config"],
        ),
        (
            Contest,
            {"contest_config": {"ordering": {"positions": [{"id": "a"}, {"id": "a"}]}}},
            ["/contest_config/ordering"],
        ),
        (Contest, {"contest_config": {"ip_config": "anything", "rating": {"step_size": "any"}}}, []),
        (Contest, {"custom_data": {"unknown": [None, {}]}, "style": {"x": 1}}, []),
        (Contest, {"key": 1, "created": 1, "contest_config": {"created": 1, "free": {"key": 1}}}, []),
        (Participant, {"status": "maybe"}, ["/status"]),
        (Participant, {"user": {"user_id": 1}}, ["/user/user_id"]),
        (Participant, {"running_number": 7, "vote_count": 1, "contest_key": "x", "image": {}}, []),
    ],
)
def test_members_are_checked(schema: type[Members], body: dict[str, Any], wrong: list[str]) -> None:
    """`tests/e2e/current_api/test_fields.py` sends wrong values of every field."""
    assert pointers(schema, body) == wrong


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01t00:00:00.1z", "2026-01-01T00:00:00.100000Z"),
        ("2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456Z"),
        ("2026-01-01T00:00:00+05:30", "2025-12-31T18:30:00.000000Z"),
    ],
)
def test_timestamps_become_utc_to_the_microsecond(given: str, kept: str) -> None:
    assert Contest.model_validate({"publish": given}).stored() == {"publish": kept}


def test_only_what_was_set_is_stored_and_everything_is_shown() -> None:
    contest = Contest.model_validate({"title": None, "contest_config": {"free": {"max_contest": 2}}})
    assert contest.stored() == {"contest_config": {"free": {"max_contest": 2}}}
    shown = contest.shown()
    assert shown["title"] is None
    assert shown["tags"] == []
    assert shown["contest_config"]["free"] == {"is_mobile_only": False, "max_contest": 2, "max_participant": 1}
    assert shown["contest_config"]["vote_visibility"] == "shown"


@pytest.mark.parametrize("name", RESOURCES)
def test_every_member_is_described(name: str) -> None:
    row = RESOURCES[name]
    schema = row.schema.model_json_schema()
    parts = {"its own": schema, **schema.get("$defs", {}), "computed": {"properties": row.schema.computed_members}}
    silent = {
        f"{part}/{member}"
        for part, found in parts.items()
        for member, schema in found.get("properties", {}).items()
        if not schema.get("description")
    }
    assert not silent


@pytest.mark.parametrize("name", RESOURCES)
def test_every_example_could_be_sent(name: str) -> None:
    row = RESOURCES[name]
    assert row.schema.model_validate(row.example).stored() == row.example


def test_an_unknown_member_comes_with_the_likely_name() -> None:
    config = {
        "strt": None,
        "free": {"max_participants": 1},
        "ordering": {"positions": [{"id": "a", "titel": "First"}]},
    }
    with pytest.raises(ValidationFailed) as refused:
        checked(Contest, {"contestconfig": {}, "contest_config": config, "zzz": 1})
    assert {problem["pointer"]: problem["message"] for problem in refused.value.data["errors"]} == {
        "/contestconfig": "is not a known member; did you mean contest_config?",
        "/contest_config/strt": "is not a known member; did you mean start?",
        "/contest_config/free/max_participants": "is not a known member; did you mean max_participant?",
        "/contest_config/ordering/positions/0/titel": "is not a known member; did you mean title?",
        "/zzz": "is not a known member",
    }
