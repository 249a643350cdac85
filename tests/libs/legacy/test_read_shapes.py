"""The documented shapes of the legacy API: their members are those that reads show."""

from typing import Any

import pytest

from libs.contracts.catalogue_events import Stored
from libs.legacy import articles, contests, conventions, feeds, images, participants, timeslots
from libs.legacy.feeds import Pages
from libs.tally.contest import Phase

STORED = Stored("key", 1, 1, 1, 1, "parent", '{"title": "x"}')
PICTURE = Stored(
    "key", 1, 1, 1, 0, "", '{"picture": {"format": "png", "width": 2, "height": 1, "object": "o"}, "access": {}}'
)
CONTEST_PAGE = contests.ContestPage("brand", Phase.RUNNING, STORED, [STORED], None, {})
FEED_PAGES = Pages.of(STORED.document, STORED.created)
READS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "article": (articles.article_schema(), articles.article_read("brand", STORED, articles.Embedded(), 1)),
    "contest": (contests.contest_schema(), contests.contest_read(CONTEST_PAGE)),
    "participant in a contest": (contests.listed_schema(), contests.contest_read(CONTEST_PAGE)["participants"][0]),
    "convention": (conventions.convention_schema(), conventions.convention_read("brand", STORED, {})),
    "feed": (feeds.feed_schema(), feeds.feed_read(STORED, FEED_PAGES, {})),
    "page of a feed": (feeds.page_schema(), feeds.page_read("key", FEED_PAGES, 0, {})),
    "image": (images.image_schema(), images.image_record_read("brand", PICTURE)),
    "participant": (participants.SHAPE, participants.participant_read("brand", STORED, None, {})),
    "timeslot": (timeslots.timeslot_schema(), timeslots.timeslot_read("brand", STORED, {})),
}


@pytest.mark.parametrize("name", READS)
def test_a_shape_documents_exactly_the_members_that_are_read(name: str) -> None:
    shape, read = READS[name]
    assert set(shape["required"]) == set(shape["properties"]) == set(read)
