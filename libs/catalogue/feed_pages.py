"""The pages of a feed: what stands where. Pure.

A feed's record holds all of its pages as the server's own member `pages`, so one event changes them together. The
newest article is at the head of the first page. A page that gets too many hands its last one on to the head of the
next; nothing moves back, and an empty page vanishes unless it is the first.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import NotFound

PAGE: Final = 20
MOST_ITEMS: Final = 5_000
"""Some 200 kB: every change writes them all, and every read looks whether their articles are still there."""


class Item(NamedTuple):
    """An article's place in a feed. The same article may have several."""

    number: int
    article: str


@dataclass(frozen=True, slots=True)
class Page:
    """Times are microseconds since 1970 UTC; `updated` is when its items changed last."""

    number: int
    items: tuple[Item, ...]
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Pages:
    """At least one page. Pages and items are numbered together, and no number is given twice.

    The methods give the pages as they are after a change at `at` (us).
    """

    pages: tuple[Page, ...]
    next_number: int

    @classmethod
    def of(cls, document: Mapping[str, Any], created: int) -> "Pages":
        """What a feed's document says; one empty page since the feed was `created` where it says nothing."""
        kept = document.get("pages")
        if kept is None:
            return cls((Page(1, (), created, created),), 2)
        pages = (
            replace(Page(**page), items=tuple(Item(*item) for item in page["items"])) for page in kept["pages"]
        )
        return cls(tuple(pages), kept["next_number"])

    def member(self) -> dict[str, Any]:
        """What stands in the document."""
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
        """Where the page of this number stands. Raises `NotFound`."""
        for index, each in enumerate(self.pages):
            if each.number == page:
                return index
        raise NotFound("feed page not found")

    def added(self, article: str, at: int) -> "Pages":
        """With the article at the head. Raises `ValidationFailed` where the feed is full."""
        if len(self.items) >= MOST_ITEMS:
            raise ValidationFailed([Problem("", f"a feed holds {MOST_ITEMS:,} articles at most; remove some")])
        item = Item(self.next_number, article)
        first, *others = (page.items for page in self.pages)
        return replace(self, next_number=item.number + 1)._settled([(item, *first), *others], at)

    def removed(self, number: int, at: int) -> "Pages":
        """Without the item of this number. Raises `NotFound`."""
        if all(item.number != number for item in self.items):
            raise NotFound("feed item not found")
        return self._settled((_without(page.items, number) for page in self.pages), at)

    def moved(self, number: int, source: int, target: int | None, index: int, at: int) -> "Pages":
        """With an item of page `source` at `index` there, or of the neighbouring page `target`.

        An index behind the last place is the last place. Raises `NotFound`, and `ValidationFailed` for a `target`
        that is no neighbour.
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
        """Without the items of these articles."""
        kept = (tuple(item for item in page.items if item.article not in articles) for page in self.pages)
        return self._settled(kept, at)

    def _settled(self, items: Iterable[tuple[Item, ...]], at: int) -> "Pages":
        """The same pages with these items, with what overflows moved on, and without pages that were emptied."""
        settled: list[Page] = []
        over: tuple[Item, ...] = ()
        for page, own in zip(self.pages, items, strict=True):
            held, over = (over + own)[:PAGE], (over + own)[PAGE:]
            settled.append(page if held == page.items else replace(page, items=held, updated=at))
        number = self.next_number
        if over:
            settled.append(Page(number, over, at, at))
            number += 1
        return Pages(tuple(page for page in settled if page.items or page is settled[0]), number)


def _without(items: Iterable[Item], number: int) -> tuple[Item, ...]:
    return tuple(item for item in items if item.number != number)
