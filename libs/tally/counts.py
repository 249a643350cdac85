"""Sums that the fold maintains: votes and voters, and ratings."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from libs.tally.contest import MILLION

MOST_VALUE: Final = 100
"""The last value of a distribution of ratings; larger ones count there."""


@dataclass(slots=True)
class VoteSums:
    """Number of votes, of distinct voters, and of anonymous ones among them."""

    count: int = 0
    unique: int = 0
    anonymous: int = 0

    def __add__(self, other: "VoteSums") -> "VoteSums":
        return VoteSums(self.count + other.count, self.unique + other.unique, self.anonymous + other.anonymous)


@dataclass(slots=True)
class RatingSums:
    """Number of counted ratings and sum of their values (millionths); `sub_ratings` as (number, sum) by name.

    `values` is the distribution: the numbers of ratings that round to 0, 1, 2, ..., `MOST_VALUE` or more.
    """

    count: int = 0
    total: int = 0
    sub_ratings: dict[str, tuple[int, int]] = field(default_factory=dict)
    values: tuple[int, ...] = ()

    def __add__(self, other: "RatingSums") -> "RatingSums":
        parts = {
            name: (mine[0] + theirs[0], mine[1] + theirs[1])
            for name in sorted(self.sub_ratings.keys() | other.sub_ratings.keys())
            for mine, theirs in [(self.sub_ratings.get(name, (0, 0)), other.sub_ratings.get(name, (0, 0)))]
        }
        values = tuple(map(sum, zip_longest(self.values, other.values, fillvalue=0)))
        return RatingSums(self.count + other.count, self.total + other.total, parts, values)

    def __neg__(self) -> "RatingSums":
        parts = {name: (-count, -total) for name, (count, total) in self.sub_ratings.items()}
        return RatingSums(-self.count, -self.total, parts, tuple(-count for count in self.values))


def one_value(rating: int) -> tuple[int, ...]:
    """Return the distribution of a single rating (millionths), rounded half up."""
    return (0,) * min((rating + MILLION // 2) // MILLION, MOST_VALUE) + (1,)
