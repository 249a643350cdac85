"""The documented schemas of legacy bodies: exact types and null in JSON, texts in forms."""

from typing import Any, Final

import jsonschema_rs
import pytest

from libs.contracts.limits import JSON_BODY
from libs.legacy.articles import ARTICLE
from libs.legacy.bodies import FORMS, request_body
from libs.legacy.contests import CONTEST
from libs.legacy.conventions import CONVENTION, REQUIRED
from libs.legacy.feeds import FEED, INDEX
from libs.legacy.images import IMAGE
from libs.legacy.timeslots import TIMESLOT, batch_parameters
from libs.legacy.translator import JsonSchema

TABLES: Final = {
    "contest": CONTEST.parameters,
    "article": ARTICLE.parameters,
    "convention": CONVENTION.parameters,
    "timeslot": TIMESLOT.parameters,
    "timeslots": batch_parameters(),
    "feed": FEED.parameters,
    "index": INDEX,
}


def described(name: str, kind: str = "application/json", required: tuple[str, ...] = ()) -> dict[str, JsonSchema]:
    schema = request_body(name, TABLES[name], required, ("application/json", *FORMS), JSON_BODY)["content"][kind][
        "schema"
    ]
    members: dict[str, JsonSchema] = schema["properties"]
    return members


def fits(schema: JsonSchema, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(value)


@pytest.mark.parametrize("name", TABLES)
def test_json_takes_null_for_what_may_be_left_out(name: str) -> None:
    every = described(name)
    assert [member for member, schema in every.items() if not fits(schema, None)] == []
    required = tuple(TABLES[name])[:1]
    assert not fits(described(name, required=required)[required[0]], None)


def test_null_in_items_is_described_too() -> None:
    days = described("convention", required=REQUIRED)["days"]
    assert fits(days, [{"id": "a", "title": None}])
    assert not fits(days, [{"id": None}])
    assert not fits(days, [{"title": 1, "id": "a"}])


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_has_lists_and_objects_as_json_text(kind: str) -> None:
    texts = described("convention", kind)
    assert fits(texts["days"], '[{"id": "a"}]')
    assert fits(texts["days"], ['{"id": "a"}', '{"id": "b"}'])
    assert described("feed", kind)["custom_data"]["contentMediaType"] == "application/json"


def test_every_value_of_add_participants_is_taken() -> None:
    schema = described("contest")["add_participants"]
    assert all(fits(schema, value) for value in (7, "x", [1], [{"title": 1}], None))


def test_a_file_is_of_multipart_forms_alone() -> None:
    content = request_body("image", IMAGE.parameters, (), FORMS, JSON_BODY)["content"]
    has_file = {kind: "src" in content[kind]["schema"]["properties"] for kind in FORMS}
    assert has_file == {FORMS[0]: False, FORMS[1]: True}
