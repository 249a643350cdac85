"""Simulated voters: most vote normally, some repeat their votes, exceed their allowance or send invalid ones."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

REMEMBERED: Final = 500
"""Number of ballots that may be sent again."""
EAGER_VOTERS: Final = 24
SHARED_ADDRESS: Final = "203.0.113.7"


@dataclass(frozen=True, slots=True)
class Ballot:
    """One voter's request. `vote_id` is "" if the response is not attributed to a vote; `body` may be invalid."""

    kind: str
    vote_id: str
    participant: str
    source: str
    count: int
    body: bytes = field(repr=False)


class VoterPopulation:
    """Draws random ballots, the same ones for the same seed; `voters` is the number of signed-in voters."""

    def __init__(self, participants: Sequence[str], voters: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._participants = list(participants)
        self._weights = [self._random.uniform(0.5, 2.0) for _ in participants]
        self._voters = voters
        self.ids: set[str] = set()
        """All vote ids drawn so far."""
        self._drawn = 0
        self._recent: list[Ballot] = []
        self._kinds = [make for make, _ in _KINDS]
        self._shares = [share for _, share in _KINDS]

    def draw(self) -> Ballot:
        """Return the next ballot."""
        self._drawn += 1
        self._drift()
        make = self._random.choices(self._kinds, self._shares)[0]
        return make(self)

    def accepted(self, ballot: Ballot) -> None:
        """Remember an accepted ballot, which may be sent again."""
        self._recent.append(ballot)
        if len(self._recent) > 2 * REMEMBERED:
            del self._recent[:REMEMBERED]

    def free(self) -> Ballot:
        voter = self._random.randrange(self._voters)
        return self._vote("free", voter_id=f"voter-{voter}", ip=_address(voter), platform=self._platform())

    def paid(self) -> Ballot:
        fan = self._random.randrange(max(1, self._voters // 4))
        count = self._random.choice((1, 1, 2, 3, 5, 10))
        return self._vote("paid", voter_id=f"voter-{fan}", source="c-paid", count=count)

    def anonymous(self) -> Ballot:
        device = self._random.randrange(self._voters)
        return self._vote("anonymous", anonymous_id=f"device-{device}", platform=self._platform())

    def eager(self) -> Ballot:
        """Return a ballot of a voter who exceeds the allowance: half of them for one favourite, half for all."""
        voter = self._random.randrange(EAGER_VOTERS)
        favourite = self._participants[voter // 2 % len(self._participants)] if voter % 2 else ""
        count = self._random.choice((1, 1, 2))
        return self._vote("eager", participant=favourite, voter_id=f"eager-{voter}", count=count)

    def neighbour(self) -> Ballot:
        voter = self._random.randrange(self._voters)
        return self._vote("neighbour", voter_id=f"neighbour-{voter}", ip=SHARED_ADDRESS)

    def repeat(self) -> Ballot:
        return self._random.choice(self._recent) if self._recent else self.free()

    def reused_id(self) -> Ballot:
        """Return a ballot that reuses the id of an earlier vote with a higher count."""
        if not self._recent:
            return self.free()
        earlier = self._random.choice(self._recent)
        body = orjson.loads(earlier.body) | {"count": earlier.count + 1}
        return Ballot("reused id", "", earlier.participant, earlier.source, 0, orjson.dumps(body))

    def unknown_participant(self) -> Ballot:
        return self._vote("unknown participant", voter_id="voter-0", participant="nobody")

    def paid_anonymous(self) -> Ballot:
        return self._vote("paid anonymous", anonymous_id="device-0", source="c-paid")

    def malformed(self) -> Ballot:
        body = self._random.choice(
            (
                b'{"participant_key": "oops',
                b'{"voter_id": "voter-1"}',
                b'{"participant_key": "p", "voter_id": "v", "anonymous_id": "a"}',
                b'{"participant_key": "p", "voter_id": "v", "count": 0}',
            )
        )
        return Ballot("malformed", "", "", "", 0, body)

    def _vote(
        self, kind: str, *, participant: str = "", source: str = "c-free", count: int = 1, **members: Any
    ) -> Ballot:
        vote_id = f"{kind.replace(' ', '-')}-{self._drawn}"
        chosen = participant or self._random.choices(self._participants, self._weights)[0]
        self.ids.add(vote_id)
        vote = {"vote_id": vote_id, "participant_key": chosen, "source": source, "count": count}
        return Ballot(kind, vote_id, chosen, source, count, orjson.dumps(vote | members))

    def _platform(self) -> str:
        return self._random.choice(("ios", "android", "web"))

    def _drift(self) -> None:
        """Change the participants' popularity at random, so that the lead changes."""
        at = self._random.randrange(len(self._weights))
        self._weights[at] = min(3.0, max(0.3, self._weights[at] * self._random.uniform(0.93, 1.075)))


def _address(voter: int) -> str:
    """Return the voter's own address, from a private range."""
    return f"10.{voter >> 16 & 255}.{voter >> 8 & 255}.{voter & 255}"


_KINDS: Final[tuple[tuple[Callable[[VoterPopulation], Ballot], float], ...]] = (
    (VoterPopulation.free, 46),
    (VoterPopulation.paid, 15),
    (VoterPopulation.anonymous, 16),
    (VoterPopulation.eager, 9),
    (VoterPopulation.neighbour, 3),
    (VoterPopulation.repeat, 6),
    (VoterPopulation.reused_id, 1),
    (VoterPopulation.unknown_participant, 1.5),
    (VoterPopulation.paid_anonymous, 1),
    (VoterPopulation.malformed, 1.5),
)
"""Kinds of ballots and their shares in percent."""
