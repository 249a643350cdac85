"""A legacy record that is written back unchanged, with its embedded records, loses nothing."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.base import Record
from libs.catalogue.schemas.content import Article, Convention, Feed, Timeslot
from libs.catalogue.schemas.contest import Contest
from libs.contracts.catalogue_events import Stored
from libs.legacy.articles import Embedded, article_read, article_written, named_by
from libs.legacy.contests import ContestPage, contest_read, contest_written
from libs.legacy.conventions import convention_read, convention_written
from libs.legacy.feeds import Pages, feed_read, feed_written
from libs.legacy.timeslots import timeslot_read, timeslot_written
from libs.tally.contest import Phase
from tests.libs.legacy.round_trips import documents, shown
from tests.support.hypothesis_examples import examples

AFTER_ALL = 1 << 60
"""A moment (us) at which everything that has a `publish` is published."""


class Case(NamedTuple):
    schema: type[Record]
    read: Callable[[Stored], Document]
    written: Callable[[Mapping[str, Any], Document | None], Document]


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
    "contests": Case(Contest, contest, partial(contest_written, now=AFTER_ALL)),
    "articles": Case(Article, article, article_written),
    "conventions": Case(Convention, lambda stored: convention_read("acme", stored, {}), convention_written),
    "timeslots": Case(Timeslot, lambda stored: timeslot_read("acme", stored, {}), timeslot_written),
    "feeds": Case(Feed, lambda stored: feed_read(stored, Pages.of({}, 0), {}), feed_written),
}
"""Every resource whose legacy bodies are JSON."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_whole_read_written_back_changes_nothing(case: Case, data: st.DataObject) -> None:
    document = data.draw(documents(case.schema))
    stored = Stored("own", 1, 0, 0, 0, "above", orjson.dumps(document).decode())
    after = case.written(case.read(stored), document)
    assert shown(case.schema, after) == shown(case.schema, document)
