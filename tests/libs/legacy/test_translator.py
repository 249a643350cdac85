"""The mapper that reads and writes by a table of fields."""

import pytest
from pydantic import Field as Member

from libs.catalogue.schemas.base import FreeForm, Linked, Members, Record
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy import articles, contests, conventions, feeds, images, participants, timeslots
from libs.legacy.translator import Field, JsonSchema, Translator


class Hall(Members):
    id: str
    name: str | None = None
    seats: int | None = None
    style: FreeForm = Member({})


class Inner(Members):
    price: int = 5
    seats: int = 5
    currency: str | None = None


class Play(Record):
    who: str | None = None
    all: list[str] = Member([])


class Show(Record):
    title: str | None = None
    kind: str = "play"
    inner: Inner = Member(default_factory=Inner)
    image: Linked = Linked()
    halls: list[Hall] = Member([])


TABLE = (
    Field("text", "title", "another word"),
    Field("kind", "kind", default="film", allowed=("film", "play")),
    Field("config.cost", "inner.price", default=0),
    Field("config.counted", "inner.seats", reads=False),
    Field("image_id", "image.key", reads=False, names_record=True),
    Field("seen", "inner.currency", writes=False),
    Field("places", "halls", items=(Field("id", "id"), Field("label", "name"))),
)
SHOW = Translator(Show, TABLE)


def test_reads_put_canonical_members_where_legacy_has_them() -> None:
    record = Show.model_validate(
        {"title": "T", "inner": {"price": 3}, "halls": [{"id": "a", "name": "A", "seats": 9}]}
    )
    assert SHOW.read(record) == {
        "text": "T",
        "kind": "play",
        "config": {"cost": 3},
        "seen": None,
        "places": [{"id": "a", "label": "A"}],
    }


def test_a_create_has_legacy_s_defaults_and_an_update_none() -> None:
    assert SHOW.written({}, None) == {"kind": "film", "inner": {"price": 0}}
    assert SHOW.written({}, {"title": "T"}) == {"title": "T"}
    assert SHOW.written({"text": "T", "cost": 7}, None) == {"title": "T", "kind": "film", "inner": {"price": 7}}


def test_null_is_the_default_of_the_generation_that_says_it() -> None:
    before = {"title": "T", "kind": "play", "inner": {"price": 3, "currency": "EUR"}}
    after = SHOW.written({"text": None, "kind": None, "cost": None}, before)
    assert before["inner"] == {"price": 3, "currency": "EUR"}
    assert after == {"kind": "film", "inner": {"price": 0, "currency": "EUR"}}


def test_a_value_that_is_not_legacy_s_can_only_stay() -> None:
    assert SHOW.written({"kind": "opera"}, {"kind": "opera"}) == {"kind": "opera"}
    for before in (None, {}, {"kind": "play"}):
        with pytest.raises(ValidationFailed, match="kind: must be one of film, play"):
            SHOW.written({"kind": "opera"}, before)


def test_all_faults_of_a_body_are_named_at_once_and_no_more_than_20() -> None:
    body = {"kind": "opera", "text": 7, "cost": "x", "places": [{"id": "a", "label": 1}, {"label": "B"}]}
    with pytest.raises(ValidationFailed) as caught:
        SHOW.written(body, None, [Problem("/own", "is wrong")])
    pointers = [each["pointer"] for each in caught.value.data["errors"]]
    assert pointers == ["/own", "/kind", "/text", "/cost", "/places/0/label", "/places/1/id"]
    with pytest.raises(ValidationFailed) as caught:
        SHOW.written({"kind": "opera", "places": [{}] * 30}, None)
    assert len(caught.value.data["errors"]) == 20


def test_items_of_a_list_keep_what_legacy_does_not_name() -> None:
    before = {"halls": [{"id": "a", "name": "A", "seats": 9}, {"id": "b", "style": {"size": 1}}]}
    after = SHOW.written({"places": [{"id": "b", "label": "B"}, {"id": "c", "seats": 5}, {"id": "a"}]}, before)
    assert after == {
        "halls": [{"id": "b", "style": {"size": 1}, "name": "B"}, {"id": "c"}, {"id": "a", "seats": 9}]
    }
    assert before["halls"][0] == {"id": "a", "name": "A", "seats": 9}


def test_what_a_read_embeds_stands_for_its_key_unless_the_parameter_is_there() -> None:
    acts = Translator(
        Play,
        (
            Field("who_id", "who", reads=False, embeds=("who", "person_id")),
            Field("all_keys", "all", reads=False, embeds=("everybody", "key")),
        ),
    )
    read = {"who": {"person_id": "ann"}, "everybody": [{"key": "a"}, {"key": "b"}]}
    assert acts.written(read, {}) == {"who": "ann", "all": ["a", "b"]}
    assert acts.written(read | {"who_id": "bob", "all_keys": None}, {}) == {"who": "bob"}
    before = {"who": "ann", "all": ["a"]}
    assert acts.written({"who": None, "everybody": "x"}, before) == before


def resources() -> list[tuple[str, tuple[Field, ...]]]:
    """The tables of all resources, with those of their lists' items."""
    modules = [articles, contests, conventions, feeds, images, participants, timeslots]
    tables = [(module.__name__.rpartition(".")[2], module.FIELDS) for module in modules]
    return tables + [(name, field.items) for name, table in tables for field in table if field.items]


@pytest.mark.parametrize(("name", "table"), resources())
def test_what_is_not_one_to_one_says_why(name: str, table: tuple[Field, ...]) -> None:
    for field in table:
        plain = Field(field.legacy, field.legacy, field.reason, names_record=field.names_record, items=field.items)
        assert field == plain or field.reason, f"{name}: {field.legacy}"


@pytest.mark.parametrize("given", ["x", [1], [{"id": [1]}], [{"id": {}}], {}])
def test_a_list_that_is_none_is_left_for_validation_to_refuse(given: object) -> None:
    assert "halls" in SHOW.written({"places": given}, {"halls": [{"id": "a"}]})


def test_refusals_name_members_as_legacy_does() -> None:
    refused = ValidationFailed(
        Problem(pointer, "is wrong")
        for pointer in ("/inner/price", "/halls/0/name", "/halls", "/image/key", "/kinder")
    )
    renamed = SHOW.renamed(refused)
    assert renamed.message == (
        "cost: is wrong; places.0.label: is wrong; places: is wrong; image_id: is wrong; is wrong"
    )


def test_parameters_are_described_by_the_canonical_schema() -> None:
    parameters = SHOW.parameters
    assert parameters["cost"] == {"type": "integer", "default": 0}
    assert parameters["kind"] == {"type": "string", "default": "film", "enum": ["film", "play"]}
    assert parameters["text"] == {"type": "string"}
    assert parameters["counted"] == {"type": "integer", "default": 5}
    assert parameters["places"]["items"]["properties"].keys() == {"id", "label"}
    assert "seen" not in parameters


def test_parameters_are_derived_at_their_first_use_and_kept() -> None:
    asked = []

    def own() -> dict[str, JsonSchema]:
        asked.append(1)
        return {"more": {"type": "string"}}

    translator = Translator(Show, TABLE, own)
    assert not asked
    assert "more" in translator.parameters
    assert translator.parameters is translator.parameters
    assert len(asked) == 1
