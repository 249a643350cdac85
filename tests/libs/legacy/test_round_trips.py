"""Nothing is lost between the generations: what one cannot express survives a write through the other."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import partial
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from libs.catalogue.schemas.base import Document, Record
from libs.catalogue.schemas.content import Article, ArticleDraft, Convention, Feed, Timeslot
from libs.catalogue.schemas.contest import Contest, Participant
from libs.catalogue.schemas.media import Image
from libs.contracts.catalogue_events import Stored
from libs.legacy.articles import ARTICLE, DRAFT, Embedded, article_read, article_written, named_by
from libs.legacy.contests import CONTEST, ContestPage, contest_read, contest_written
from libs.legacy.conventions import CONVENTION, convention_read, convention_written
from libs.legacy.feeds import FEED, Pages, feed_read, feed_written
from libs.legacy.images import IMAGE
from libs.legacy.participants import PARTICIPANT
from libs.legacy.timeslots import TIMESLOT, timeslot_read, timeslot_written
from libs.legacy.translator import Translator
from libs.tally.contest import Phase
from tests.support.hypothesis_examples import examples

WORDS = st.text('abc é"\\', max_size=4)
FREE = st.dictionaries(
    WORDS, st.one_of(st.integers(-3, 3), WORDS, st.lists(st.booleans(), max_size=2)), max_size=2
)
KEYS = re.compile(r"(.*_)?(id|key|keys|article|image)")
"""Members that name records."""
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
AFTER_ALL = 1 << 60
"""A moment (us) at which everything that has a `publish` is published."""


class Case(NamedTuple):
    """`read` and `written` are of whole legacy bodies, with embedded records, where those are JSON."""

    translator: Translator
    schema: type[Record]
    read: Callable[[Stored], Document] | None = None
    written: Callable[[Mapping[str, Any], Document | None], Document] | None = None

    def sent_back(self, document: Document) -> Document:
        """Return the record that results when a legacy client writes back all that it read."""
        if self.read is None or self.written is None:
            return sent_back(self.translator, self.schema, document)
        stored = Stored("own", 1, 0, 0, 0, "above", orjson.dumps(document).decode())
        return shown(self.schema, self.written(self.read(stored), document))


def contest(stored: Stored) -> Document:
    phase = Phase.RUNNING if stored.document.get("publish") else Phase.SETUP
    return contest_read(ContestPage("acme", phase, stored, [], None, {}))


def article(stored: Stored) -> Document:
    """With all that it refers to there."""
    named = set(named_by(stored))
    embedded = Embedded(
        contests={key: {"contest_id": key} for resource, key in named if resource == "contests"},
        participants={key: {"participant_key": key} for resource, key in named if resource == "participants"},
        surveys={key: {"key": key} for resource, key in named if resource == "surveys"},
    )
    return article_read("acme", stored, embedded, AFTER_ALL)


CASES = {
    "contests": Case(CONTEST, Contest, contest, partial(contest_written, now=AFTER_ALL)),
    "participants": Case(PARTICIPANT, Participant),
    "feeds": Case(FEED, Feed, lambda stored: feed_read(stored, Pages.of({}, 0), {}), feed_written),
    "images": Case(IMAGE, Image),
    "articles": Case(ARTICLE, Article, article, article_written),
    "conventions": Case(
        CONVENTION, Convention, lambda stored: convention_read("acme", stored, {}), convention_written
    ),
    "drafts of articles": Case(DRAFT, ArticleDraft),
    "timeslots": Case(TIMESLOT, Timeslot, lambda stored: timeslot_read("acme", stored, {}), timeslot_written),
}
"""Every resource that both generations write."""

every_resource = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
relaxed = settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))


@every_resource
@relaxed
@given(data=st.data())
def test_a_record_read_by_legacy_and_written_back_is_what_it_was(case: Case, data: st.DataObject) -> None:
    document = data.draw(documents(case.schema))
    assert case.sent_back(document) == shown(case.schema, document)


@every_resource
@relaxed
@given(data=st.data())
def test_a_legacy_write_changes_nothing_but_what_it_names(case: Case, data: st.DataObject) -> None:
    before = data.draw(documents(case.schema))
    body = data.draw(bodies(case.translator, case.schema))
    after = case.translator.written(body, before)
    named = [field.canonical for field in case.translator.fields if field.writes and field.parameter in body]
    assert without(after, *named) == without(before, *named)


@every_resource
@relaxed
@given(data=st.data())
def test_a_record_made_by_legacy_and_sent_back_by_the_current_api_reads_the_same(
    case: Case, data: st.DataObject
) -> None:
    body = data.draw(bodies(case.translator, case.schema))
    document = case.schema.model_validate(case.translator.written(body, None)).stored()
    again = case.schema.model_validate(shown(case.schema, document))
    read = case.translator.read(case.schema.model_validate(document))
    assert case.translator.read(again) == read
    assert shown(case.schema, case.translator.written(body, document)) == shown(case.schema, document)


def documents(schema: type[Record]) -> SearchStrategy[Document]:
    """Canonical documents of a resource, as they are stored. No key is empty: in legacy an empty one is none."""
    described = schema.model_json_schema(mode="validation")
    return (
        _values(described, described)
        .filter(lambda body: _fits(schema, body))
        .map(lambda body: schema.model_validate(_named(body)).stored())
    )


def bodies(translator: Translator, schema: type[Record]) -> SearchStrategy[Document]:
    """Legacy bodies that make a valid record, of some of the table's parameters."""
    described = {
        field.parameter: translator.parameters[field.parameter] for field in translator.fields if field.writes
    }
    members: dict[str, SearchStrategy[Any]] = {name: _values(each, each) for name, each in described.items()}
    return st.fixed_dictionaries({}, optional=members).filter(
        lambda body: _fits(schema, translator.written(body, None))
    )


def sent_back(translator: Translator, schema: type[Record], document: Document) -> Document:
    """Return the record that results when a legacy client writes back all that it read."""
    shape = translator.read(schema.model_validate(document))
    body = {
        field.parameter: _at(shape, field.legacy) for field in translator.fields if field.reads and field.writes
    }
    return shown(schema, translator.written(body, document))


def shown(schema: type[Record], document: Document) -> Document:
    """The current generation's read, without what the server adds."""
    return schema.model_validate(document).shown()


def without(document: Document, *paths: str) -> Document:
    """All but what stands at these places, and objects that are empty without that."""
    found = dict(document)
    for path in paths:
        step, _, rest = path.partition(".")
        if not rest:
            found.pop(step, None)
        elif isinstance(found.get(step), dict):
            found[step] = without(found[step], rest)
            if not found[step]:
                del found[step]
    return found


def _named(value: Any, is_key: bool = False) -> Any:
    """With a key where there is an empty one."""
    if isinstance(value, dict):
        return {name: _named(each, KEYS.fullmatch(name) is not None) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each, is_key) for each in value]
    return "named" if is_key and value == "" else value


def _at(shape: Any, path: str) -> Any:
    for step in path.split("."):
        shape = shape[step]
    return shape


def _fits(schema: type[Record], body: Document) -> bool:
    try:
        schema.model_validate(body)
    except ValueError:
        return False
    return True


def _values(whole: Document, schema: Document) -> SearchStrategy[Any]:
    """Values of a JSON schema, as far as ours go."""
    if "$ref" in schema:
        return _values(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([_values(whole, each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            members = {name: _values(whole, each) for name, each in schema["properties"].items()}
            needed = {name: members.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=members)
        case "object":
            return FREE
        case "array":
            return st.lists(_values(whole, schema["items"]) if schema.get("items") else FREE, max_size=3)
        case "integer" | "number":
            return st.integers(schema.get("minimum", -9), min(schema.get("maximum", 9), 9))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if schema.get("format") == "date-time":
            return TIMES
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            return st.text(
                "abc é", min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 4), 4)
            )
    return FREE
