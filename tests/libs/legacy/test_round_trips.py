"""Nothing is lost between the generations: what one cannot express survives a write through the other."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.base import Record
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
from tests.libs.legacy.round_trips import bodies, documents, sent_back, shown, without
from tests.support.hypothesis_examples import examples

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
