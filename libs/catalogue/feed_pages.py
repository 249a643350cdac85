"""Pages of a feed and the articles on them, as pure functions.

A feed's record holds all of its pages in the server's member `pages`, so one event changes them together. The
newest article is first on the first page. A page with too many items moves its last one to the start of the next;
items never move back, and empty pages are removed except for the first.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import NotFound

PAGE: Final = 20
MAX_ITEMS: Final = 5_000
"""About 200 kB: every change writes all items, and every read checks that their articles still exist."""


class Item(NamedTuple):
    """An article's place in a feed. An article may occur several times."""

    number: int
    article: str


@dataclass(frozen=True, slots=True)
class FeedPage:
    """One page. Times are microseconds since 1970 UTC; `updated` is the last change of its items."""

    number: int
    items: tuple[Item, ...]
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a feed, at least one. Pages and items share one numbering without reuse.

    The methods return the pages after a change at `at` (us).
    """

    pages: tuple[FeedPage, ...]
    next_number: int

    @classmethod
    def of(cls, document: Mapping[str, Any], created: int) -> "Pages":
        """Read the pages from a feed's document; without any, return one empty page from `created`."""
        kept = document.get("pages")
        if kept is None:
            return cls((FeedPage(1, (), created, created),), 2)
        pages = (
            replace(FeedPage(**page), items=tuple(Item(*item) for item in page["items"])) for page in kept["pages"]
        )
        return cls(tuple(pages), kept["next_number"])

    def member(self) -> dict[str, Any]:
        """Return the value of the document's member `pages`."""
        pages = [
            {
                "number": page.number,
                "items": [list(item) for item in page.items],
                "created": page.created,
                "updated": page.updated,
            }
            for page in self.pages
        ]
        return {"pages": pages, "next_number": self.next_number}

    @property
    def items(self) -> list[Item]:
        return [item for page in self.pages for item in page.items]

    @property
    def articles(self) -> set[str]:
        return {item.article for item in self.items}

    def index(self, page: int) -> int:
        """Return the index of the page with this number. Raises `NotFound`."""
        for index, each in enumerate(self.pages):
            if each.number == page:
                return index
        raise NotFound("feed page not found")

    def added(self, article: str, at: int) -> "Pages":
        """Insert the article at the start. Raises `ValidationFailed` if the feed is full."""
        if len(self.items) >= MAX_ITEMS:
            raise ValidationFailed([Problem("", f"a feed can hold at most {MAX_ITEMS:,} articles; remove some")])
        item = Item(self.next_number, article)
        first, *others = (page.items for page in self.pages)
        return replace(self, next_number=item.number + 1)._settled([(item, *first), *others], at)

    def removed(self, number: int, at: int) -> "Pages":
        """Remove the item with this number. Raises `NotFound`."""
        if all(item.number != number for item in self.items):
            raise NotFound("feed item not found")
        return self._settled((_without(page.items, number) for page in self.pages), at)

    def moved(self, number: int, source: int, target: int | None, index: int, at: int) -> "Pages":
        """Move an item of page `source` to `index` on it, or on the neighbouring page `target`.

        An index after the last place means the last place. Raises `NotFound`, and `ValidationFailed` if `target`
        is not a neighbour.
        """
        place = self.index(source)
        to = place if target is None else self.index(target)
        found = [item for item in self.pages[place].items if item.number == number]
        if not found:
            raise NotFound("feed item not found")
        if target is not None and abs(place - to) != 1:
            raise ValidationFailed(
                [Problem("", "to_page_key must be the page's next_page_key or previous_page_key")]
            )
        items = [_without(page.items, number) for page in self.pages]
        index = min(index, PAGE - 1)
        items[to] = (*items[to][:index], *found, *items[to][index:])
        return self._settled(items, at)

    def without(self, articles: Collection[str], at: int) -> "Pages":
        """Remove the items of these articles."""
        kept = (tuple(item for item in page.items if item.article not in articles) for page in self.pages)
        return self._settled(kept, at)

    def _settled(self, items: Iterable[tuple[Item, ...]], at: int) -> "Pages":
        """Set the pages' items, move overflowing items to the next page, and remove empty pages."""
        settled: list[FeedPage] = []
        over: tuple[Item, ...] = ()
        for page, own in zip(self.pages, items, strict=True):
            held, over = (over + own)[:PAGE], (over + own)[PAGE:]
            settled.append(page if held == page.items else replace(page, items=held, updated=at))
        number = self.next_number
        if over:
            settled.append(FeedPage(number, over, at, at))
            number += 1
        return Pages(tuple(page for page in settled if page.items or page is settled[0]), number)


def _without(items: Iterable[Item], number: int) -> tuple[Item, ...]:
    return tuple(item for item in items if item.number != number)
