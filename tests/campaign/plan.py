"""The schedule of faults, by a seed alone: which, how long, and how long after the last one has healed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from tests.simulation.faults import Streams

LENGTHS_S: Final = (0.5, 2.0, 6.0, 12.0, 20.0)
"""Shorter and longer than the deadlines of requests and appends, and than the sessions of all members."""
APART_S: Final = (0.0, 0.5, 2.0)
PAIRED: Final = 0.5
"""Share of the faults that come with a second one."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Faults that come together, `after_s` after the last ones. `lasts_s` is for those that last."""

    number: int
    faults: tuple[str, ...]
    after_s: float
    apart_s: float
    """Time between the beginnings of two."""
    lasts_s: float

    def __str__(self) -> str:
        return f"{self.number}: {' and '.join(self.faults)}, for {self.lasts_s:g} s"


def plan(streams: Streams, faults: Mapping[str, Sequence[str]]) -> Iterator[Episode]:
    """Yield episodes without end: all `faults`, given with the kinds of members that they hit, in a random order,
    then in another one. Some come with another fault, of other members.

    Each choice has a random stream of its own, so another length changes no order.
    """
    numbers = count(1)
    while True:
        for fault in streams["order"].sample(list(faults), len(faults)):
            others = [other for other, hits in faults.items() if not {*hits} & {*faults[fault]}]
            chosen = streams["partners"].random()
            is_pair = streams["pairs"].random() < PAIRED and others
            yield Episode(
                next(numbers),
                (fault, others[int(chosen * len(others))]) if is_pair else (fault,),
                streams["pauses"].uniform(1.0, 6.0),
                streams["apart"].choice(APART_S),
                streams["lengths"].choice(LENGTHS_S),
            )
