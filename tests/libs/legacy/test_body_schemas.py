"""The documented schemas of legacy bodies: exact types and null in JSON, texts in forms, both as they are read."""

from typing import Any, Final

import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.legacy.articles import ARTICLE
from libs.legacy.bodies import FORMS, from_form, request_body
from libs.legacy.contests import CONTEST
from libs.legacy.conventions import CONVENTION, REQUIRED
from libs.legacy.feeds import FEED, INDEX
from libs.legacy.images import IMAGE
from libs.legacy.timeslots import MULTI, TIMESLOT
from libs.legacy.translator import JsonSchema
from libs.web.door.form_parsing import integer_text

TABLES: Final = {
    "contest": CONTEST.parameters,
    "article": ARTICLE.parameters,
    "convention": CONVENTION.parameters,
    "timeslot": TIMESLOT.parameters,
    "timeslots": MULTI,
    "feed": FEED.parameters,
    "index": INDEX,
}
MEMBERS: Final = [(name, member) for name, table in TABLES.items() for member in table]
TEXTS: Final = st.one_of(
    st.text(max_size=5),
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(["", "0", "-0", "00", "+1", "1.0", "1e2", "-1", "-2", "2147483647", "2147483648", "null"]),
    st.sampled_from(["true", "True", "TRUE", "tRue", "1", "false", "FALSE", "no", "listed", "vote_count"]),
    st.sampled_from(["{}", " {}\n", "[]", "[{}]", '["a"]', "{", '{"a": 1', "\xa0{}", '"a"']),
)


def described(name: str, kind: str = "application/json", required: tuple[str, ...] = ()) -> dict[str, JsonSchema]:
    schema = request_body(name, TABLES[name], required, ("application/json", *FORMS))["content"][kind]["schema"]
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
def test_a_form_carries_texts_and_no_null(kind: str) -> None:
    others: tuple[object, ...] = (None, 1, True, {})
    for name, member in MEMBERS:
        schema = described(name, kind)[member]
        assert not any(fits(schema, value) for value in others), (name, member)


@given(st.sampled_from(MEMBERS), TEXTS)
def test_a_form_s_texts_are_described_as_they_are_read(place: tuple[str, str], text: str) -> None:
    name, member = place
    exact, form = described(name)[member], described(name, FORMS[0])[member]
    if "format" in orjson.dumps(exact).decode() or CONTEST.parameters.get(member, {}).get("items"):
        return  # formats are checked by the record's schema; a list of texts takes every text as its item
    read = from_form([(member, text)], TABLES[name])[member]
    taken = fits(exact, read)
    assert fits(form, text) >= taken
    if not isinstance(read, dict | list) and "contentSchema" not in orjson.dumps(form).decode():
        assert fits(form, text) == taken or (isinstance(read, int) and abs(read) >= 2**63)


@given(st.integers(-3000, 0), st.integers(1, 12_345), st.integers(-4000, 20_000))
def test_an_integer_s_text_has_its_bounds(least: int, most: int, value: int) -> None:
    schema = integer_text({"minimum": least, "maximum": most})
    assert fits(schema, str(value)) == (least <= value <= most)
    assert fits(integer_text({"minimum": -1, "maximum": most, "not": {"const": 0}}), "0") is False


def test_every_value_of_add_participants_is_taken() -> None:
    schema = described("contest")["add_participants"]
    assert all(fits(schema, value) for value in (7, "x", [1], [{"title": 1}], None))


def test_a_file_is_of_multipart_forms_alone() -> None:
    content = request_body("image", IMAGE.parameters, (), FORMS)["content"]
    has_file = {kind: "src" in content[kind]["schema"]["properties"] for kind in FORMS}
    assert has_file == {FORMS[0]: False, FORMS[1]: True}
