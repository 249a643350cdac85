"""A contest's counts at one moment, and the answers made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import orjson

from libs.contracts.catalogue import ContestConfig, Stored
from libs.contracts.tokens import encode_positions
from libs.tally.contest import Contest, Phase
from libs.tally.errors import timestamp
from libs.tally.figures import Figures
from libs.web.conditions import etag

INTERNAL_SOURCES: Final = {"c-free": "Free votes", "c-paid": "Paid votes"}
"""The sources that every contest has, always in the total, with their titles."""
FINALITY: Final = "provisional"
"""`Tally-Final`: nothing is final before contests are closed by markers in the log."""
NONE: Final = Figures()

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as it goes out: `headers` of a 200, and those of a 304."""

    body: bytes
    tag: str
    headers: list[Header]
    not_modified: list[Header]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`figures` up to `positions` at least, over the records of `config`; `contest` is the same for the rules.

    `phase` is the contest's when this was made: it is part of the entity tag.
    """

    account: str
    contest: Contest
    stored: Stored
    visibility: str
    config: ContestConfig
    phase: Phase
    figures: Mapping[tuple[str, str], Figures] = field(default_factory=dict)
    updated_ms: int | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    answers: dict[bool, Answer] = field(default_factory=dict)

    def hides(self, now: int) -> bool:
        """Whether the counts are hidden at `now` (microseconds since 1970) from keys without results:read_hidden.

        `hidden_until_vote` opens to voters, not to keys.
        """
        if self.visibility in ("shown", "hidden"):
            return self.visibility == "hidden"
        return self.contest.end is None or now < self.contest.end

    def approved(self) -> list[str]:
        """Participants that appear in results, by running number."""
        return [key for key, status in self.contest.participants.items() if status == "approved"]

    def totals(self) -> dict[str, Figures]:
        """Figures over both sources by participant, "" for the contest."""
        return {participant: figures for (participant, source), figures in self.figures.items() if not source}

    def answer(self, sources: bool) -> Answer:
        """The vote count record, made once."""
        made = self.answers.get(sources)
        if made is None:
            made = self.answers[sources] = self._encoded(self.record(sources))
        return made

    def record(self, sources: bool) -> dict[str, Any]:
        """The vote count record of the specification. `count` sums the sources over approved participants."""
        participants = {key: self._participant(key, sources) for key in self.approved()}
        updated = timestamp(self.stored.created if self.updated_ms is None else self.updated_ms * 1000)
        record: dict[str, Any] = {
            "contest_key": self.contest.key,
            "contest_type": self.contest.contest_type,
            "created": timestamp(self.stored.created),
            "updated": updated,
            **_counted(self._at("", "")),
            "participants": participants,
        }
        record["count"] = sum(each["count"] for each in participants.values())
        if sources:
            record["total_vote_sources"] = [self._total(source, updated) for source in INTERNAL_SOURCES]
        return record

    def _participant(self, key: str, sources: bool) -> dict[str, Any]:
        counted: dict[str, Any] = _counted(self._at(key, ""))
        if sources:
            counted["vote_sources"] = [
                {"source": source, **_counted(self._at(key, source))} for source in INTERNAL_SOURCES
            ]
        return counted

    def _total(self, source: str, updated: str | None) -> dict[str, Any]:
        counted = _counted(self._at("", source))
        counted["count"] = sum(self._at(key, source).count for key in self.approved())
        return {
            "source": source,
            "title": INTERNAL_SOURCES[source],
            **counted,
            "is_in_total": True,
            "is_internal": True,
            "updated": updated,
        }

    def _at(self, participant: str, source: str) -> Figures:
        return self.figures.get((participant, source), NONE)

    def _encoded(self, record: Mapping[str, Any]) -> Answer:
        body = orjson.dumps(record)
        state = f"{self.phase}\0{self.visibility}\0{FINALITY}\0".encode()
        tag = etag(blake2b(state + body, digest_size=16).hexdigest())
        common = [
            (b"etag", tag.encode()),
            (b"cache-control", b"private, max-age=1"),
            (b"tally-final", FINALITY.encode()),
            (b"tally-position", encode_positions(self.positions).encode()),
        ]
        content = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        return Answer(body, tag, content + common, common)


def _counted(figures: Figures) -> dict[str, int]:
    return {
        "count": figures.count,
        "anonymous_voter_count": figures.anonymous,
        "unique_voter_count": figures.unique,
    }
