"""Compares the fields of a view's Valkey hashes with the values that a fold expects."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from libs.audit.log_fold import Difference, LogFold
from libs.tally.fold import ContestTally
from libs.views.votes.ledger_scan import HashPage


class Fields(Protocol):
    """Fields of a hash with the values that a fold expects: a dict, or computed on demand for many fields."""

    def __iter__(self) -> Iterator[bytes]: ...

    def get(self, field: bytes, /) -> Any: ...


class Hash(NamedTuple):
    """A hash of the views: the fields that the fold `expected`, how to `decode` a stored value, and a field's
    `label` in the report.

    `members` splits an expected and a stored value, if there are both, into values that are compared by name.
    """

    name: str
    expected: Callable[[LogFold, str], Fields]
    decode: Callable[[bytes], Any]
    label: Callable[[bytes], str]
    members: Callable[[Any, Any], Iterator[tuple[str, Any, Any]]] | None = None

    def compare(self, fold: LogFold, contest: str, page: HashPage) -> Iterator[Difference]:
        """Yield the differences of a page's fields from the fold at its position."""
        expected = self.expected(fold, contest)
        for field, value in page.rows:
            yield from self._differences(fold, contest, field, expected.get(field), self.decode(value))

    def missing(self, fold: LogFold, contest: str, fields: set[bytes]) -> Iterator[Difference]:
        """Yield those of `fields`, which no page has, that the fold still expects at the last page."""
        expected = self.expected(fold, contest)
        for field in sorted(fields):
            yield from self._differences(fold, contest, field, expected.get(field), None)

    def _differences(self, fold: LogFold, contest: str, field: bytes, log: Any, view: Any) -> Iterator[Difference]:
        label = self.label(field)
        compared = [(label, log, view)]
        if self.members is not None and log is not None and view is not None:
            compared = [(f"{label}: {name}", *values) for name, *values in self.members(log, view)]
        for what, *values in compared:
            if values[0] != values[1]:
                log_text, view_text = ("nothing" if value is None else str(value) for value in values)
                yield Difference(fold.partition, what, log_text, view_text, contest)


def tally_of(fold: LogFold, contest: str) -> ContestTally:
    return fold.tally.contests.get(contest, ContestTally())
