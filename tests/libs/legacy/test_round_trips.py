"""Nothing is lost between the generations: what one cannot express survives a write through the other."""

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.catalogue.schemas.base import Record
from libs.catalogue.schemas.content import Article, ArticleDraft, Convention, Feed, Timeslot
from libs.catalogue.schemas.contest import Contest, Participant
from libs.catalogue.schemas.media import Image
from libs.legacy.articles import ARTICLE, DRAFT
from libs.legacy.contests import CONTEST
from libs.legacy.conventions import CONVENTION
from libs.legacy.feeds import FEED
from libs.legacy.images import IMAGE
from libs.legacy.participants import PARTICIPANT
from libs.legacy.timeslots import TIMESLOT
from libs.legacy.translator import Translator
from tests.libs.legacy.round_trips import bodies, documents, sent_back, shown, without
from tests.support.hypothesis_examples import examples


class Case(NamedTuple):
    translator: Translator
    schema: type[Record]


CASES = {
    "contests": Case(CONTEST, Contest),
    "participants": Case(PARTICIPANT, Participant),
    "feeds": Case(FEED, Feed),
    "images": Case(IMAGE, Image),
    "articles": Case(ARTICLE, Article),
    "conventions": Case(CONVENTION, Convention),
    "drafts of articles": Case(DRAFT, ArticleDraft),
    "timeslots": Case(TIMESLOT, Timeslot),
}
"""Every resource that both generations write."""

every_resource = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
relaxed = settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))


@every_resource
@relaxed
@given(data=st.data())
def test_a_record_read_by_legacy_and_written_back_is_what_it_was(case: Case, data: st.DataObject) -> None:
    document = data.draw(documents(case.schema))
    assert sent_back(*case, document) == shown(case.schema, document)


@every_resource
@relaxed
@given(data=st.data())
def test_a_legacy_write_changes_nothing_but_what_it_names(case: Case, data: st.DataObject) -> None:
    before = data.draw(documents(case.schema))
    body = data.draw(bodies(*case))
    after = case.translator.written(body, before)
    named = [field.canonical for field in case.translator.fields if field.writes and field.parameter in body]
    assert without(after, *named) == without(before, *named)


@every_resource
@relaxed
@given(data=st.data())
def test_a_record_made_by_legacy_and_sent_back_by_the_current_api_reads_the_same(
    case: Case, data: st.DataObject
) -> None:
    body = data.draw(bodies(*case))
    document = case.schema.model_validate(case.translator.written(body, None)).stored()
    again = case.schema.model_validate(shown(case.schema, document))
    read = case.translator.read(case.schema.model_validate(document))
    assert case.translator.read(again) == read
    assert shown(case.schema, case.translator.written(body, document)) == shown(case.schema, document)
