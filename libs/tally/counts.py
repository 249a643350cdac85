"""Sums that the fold maintains: votes and voters, and ratings."""

from dataclasses import dataclass, field


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
    """Number of counted ratings and sum of their values (millionths); `sub_ratings` as (number, sum) by name."""

    count: int = 0
    total: int = 0
    sub_ratings: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __add__(self, other: "RatingSums") -> "RatingSums":
        parts = {
            name: (mine[0] + theirs[0], mine[1] + theirs[1])
            for name in sorted(self.sub_ratings.keys() | other.sub_ratings.keys())
            for mine, theirs in [(self.sub_ratings.get(name, (0, 0)), other.sub_ratings.get(name, (0, 0)))]
        }
        return RatingSums(self.count + other.count, self.total + other.total, parts)

    def __neg__(self) -> "RatingSums":
        parts = {name: (-count, -total) for name, (count, total) in self.sub_ratings.items()}
        return RatingSums(-self.count, -self.total, parts)
