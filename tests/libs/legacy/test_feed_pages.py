"""Pages of a feed: no item is lost or duplicated by any addition, removal or move."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.validation import ValidationFailed
from libs.legacy.feeds import MAX_ITEMS, PAGE_ITEMS, Item, Pages
from libs.tally.errors import NotFound
from tests.support.hypothesis_examples import examples

EMPTY = Pages.of({}, 1)


def filled(*counts: int) -> Pages:
    """Pages with so many items each, whose articles are named for page and place."""
    pages: list[dict[str, object]] = []
    number = len(counts) + 1
    for page, count in enumerate(counts):
        items = [[number + place, f"{page}.{place}"] for place in range(count)]
        number += count
        pages.append({"number": page + 1, "items": items, "created": 1, "updated": 1})
    return Pages.of({"pages": {"pages": pages, "next_number": number}}, 1)


def articles(pages: Pages) -> list[list[str]]:
    return [[item.article for item in page.items] for page in pages.pages]


def number_of(pages: Pages, article: str) -> int:
    return next(item.number for item in pages.items if item.article == article)


def moved(pages: Pages, article: str, source: int, target: int, index: int) -> Pages:
    return pages.moved(number_of(pages, article), source, None if source == target else target, index, 2)


Step = tuple[str, int, int, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "move", "move", "delete"]),
        st.integers(0, 200),
        st.integers(-1, 1),
        st.integers(0, PAGE_ITEMS + 2),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([1, 2, PAGE_ITEMS - 1, PAGE_ITEMS]), min_size=1, max_size=4), STEPS)
def test_nothing_is_lost_or_doubled(counts: list[int], steps: list[Step]) -> None:
    pages, numbers = filled(*counts), set[int]()
    for at, (what, which, aside, index) in enumerate(steps, 2):
        before, item = pages, pages.items[which % len(pages.items)] if pages.items else Item(0, "")
        numbers |= {each.number for each in before.items} | {page.number for page in before.pages}
        if what == "add":
            pages = pages.added(f"new {at}", at)
            assert pages.pages[0].items[0] == Item(before.next_number, f"new {at}")
            assert pages.items[1:] == before.items
            assert before.next_number not in numbers
        elif what == "delete":
            pages = pages.without({item.article}, at)
            assert pages.items == [each for each in before.items if each.article != item.article]
        elif before.items and what == "remove":
            pages = pages.removed(item.number, at)
            assert pages.items == [each for each in before.items if each != item]
        elif before.items:
            place = next(place for place, page in enumerate(before.pages) if item in page.items)
            source = before.pages[place]
            target = before.pages[min(max(place + aside, 0), len(before.pages) - 1)]
            neighbour = None if target is source else target.number
            pages = pages.moved(item.number, source.number, neighbour, index, at)
            others = [each for each in before.items if each != item]
            assert [each for each in pages.items if each != item] == others
            found = next(page for page in pages.pages if item in page.items)
            assert found.number == target.number
            room = len(target.items) - (source is target)
            assert found.items.index(item) == min(index, room, PAGE_ITEMS - 1)
        assert all(len(page.items) <= PAGE_ITEMS for page in pages.pages)
        assert all(page.items for page in pages.pages[1:])
        assert pages.pages[0].number == 1
        kept = {page.number for page in before.pages}
        assert [page.number for page in pages.pages if page.number in kept] == sorted(
            (page.number for page in pages.pages if page.number in kept),
            key=[page.number for page in before.pages].index,
        )
        assert len(pages.pages) - len(kept & {page.number for page in pages.pages}) <= 1
        given_out = [item.number for item in pages.items] + [page.number for page in pages.pages]
        assert len(given_out) == len(set(given_out))
        assert max(given_out) < pages.next_number
        changed = [page for page in pages.pages if page not in before.pages]
        assert all(page.updated == at for page in changed)
        assert Pages.of(orjson.loads(orjson.dumps({"pages": pages.member()})), 0) == pages


def test_a_new_feed_has_one_empty_page_that_stays() -> None:
    assert articles(EMPTY) == [[]]
    one = EMPTY.added("a", 2)
    assert articles(one) == [["a"]]
    assert (one.pages[0].number, one.pages[0].created, one.pages[0].updated) == (1, 1, 2)
    assert articles(one.removed(number_of(one, "a"), 3)) == [[]]


def test_a_move_goes_to_a_neighbour_and_no_further() -> None:
    pages = filled(2, 2, 2)
    for target in (1, 3):
        with pytest.raises(ValidationFailed):
            pages.moved(number_of(pages, "0.0"), 1, target, 0, 2)
    for source, target in ((2, 1), (1, 9), (9, 1)):
        with pytest.raises(NotFound):
            moved(pages, "0.0", source, target, 0)
    with pytest.raises(NotFound):
        pages.removed(1, 2)


def test_a_full_feed_takes_no_more() -> None:
    pages = filled(*[PAGE_ITEMS] * (MAX_ITEMS // PAGE_ITEMS))
    with pytest.raises(ValidationFailed, match="remove some"):
        pages.added("new", 2)
    assert len(orjson.dumps(pages.member())) < 250_000
