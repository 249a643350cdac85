"""A contest and its counts at one moment, and the responses built from them."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

import orjson

from libs.catalogue.contests.closing_record import show_in_force
from libs.catalogue.contests.corrections import Correction, in_running_order
from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.pagination import Ranked
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Show
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.results.contest_counts import NO_RATINGS, NOTHING, Counts, joined
from libs.results.contest_results import Results, results_of
from libs.results.frozen_counts import thaw
from libs.tally.contest import Contest, ParticipantStatus, Phase
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_views import VoteViews
from libs.web.responses import etag, not_modified
from libs.web.server.hot_requests import Header, Reply

NO_POSITIONS: Final[Mapping[int, int]] = {}


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """A response: `headers` of a 200, and those of a 304."""

    body: bytes
    tag: str
    headers: list[Header]
    not_modified: list[Header]
    positions: Mapping[int, int]
    """Offsets by partition up to which votes are counted in it; empty if its readers are not told."""

    def reply(self, if_none_match: str | None, more: Sequence[Header] = ()) -> Reply:
        """Return the reply, with the headers `more`, to a reader with this `If-None-Match`."""
        if not_modified(if_none_match, self.tag):
            return Reply(304, [*self.not_modified, *more], b"")
        return Reply(200, [*self.headers, *more], self.body)


def encoded(
    record: Mapping[str, Any],
    state: Sequence[object],
    headers: Sequence[Header],
    positions: Mapping[int, int] = MappingProxyType({}),
) -> EncodedResponse:
    """Encode `record` as JSON. Its strong entity tag also changes with `state`; a 304 has `headers`, too."""
    body = orjson.dumps(record)
    tag = etag(blake2b("\0".join(map(str, state)).encode() + b"\0" + body, digest_size=16).hexdigest())
    common = [(b"etag", tag.encode()), *headers]
    content = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    return EncodedResponse(body, tag, content + common, common, positions)


class ResultsHidden(TallyError):
    """The contest's `vote_visibility` hides its counts now, and the key may not see hidden ones."""

    code = "results_hidden"

    def __init__(self, visibility: str) -> None:
        super().__init__(
            f"The results are {visibility}; reading them needs a key with results:read_hidden.",
            vote_visibility=visibility,
        )


class ContestSums:
    """Sums over partitions. Each voter is in one partition, so the sums of distinct voters are exact, too."""

    def __init__(self, views: VoteViews, contest: str, partitions: Iterable[int]) -> None:
        self._views = views
        self._contest = contest
        self._watched = views.watch_counts()
        self._parts: dict[int, ContestCounts | None] = dict.fromkeys(partitions)
        self._figures: dict[tuple[str, str], VoteSums] = {}
        self._ratings: dict[str, RatingSums] = {}

    async def refresh(self, wanted: Mapping[int, int] = NO_POSITIONS) -> bool:
        """Read changed partitions in one pipeline; return whether there were any. Raises `ViewsUnavailable`.

        Partitions that had not reached their `wanted` offset are read in any case: changes of another version's
        functions may be noticed later (`libs.views.valkey.watched_reads`).
        """
        groups = self._watched.groups(self._parts)
        due = dict(zip(groups, await asyncio.gather(*map(self._watched.due, groups)), strict=True))
        asked = {partition for its in due.values() for partition in its}
        asked.update(partition for partition, offset in wanted.items() if not self._has_reached(partition, offset))
        stale = await self._views.changed(self._contest, {each: self._parts[each] for each in sorted(asked)})
        whole = await self._whole([partition for partition in stale if self._parts[partition] is None])
        fetched = await asyncio.gather(
            *(self._views.counts(partition, self._contest, self._parts[partition]) for partition in stale)
        )
        for partition, part in zip(stale, fetched, strict=True):
            if part is not None and part.position.offset < whole.get(partition, 0):
                raise _rebuilt()
        for group, its in due.items():
            is_surprised = any(each in stale and not self._watched.is_noted(group, each) for each in its)
            self._watched.note_read(group, its)
            if is_surprised:
                self._watched.distrust(group)
        changed = [
            (partition, part)
            for partition, part in zip(stale, fetched, strict=True)
            if part is not None and not _went_back(self._parts[partition], part)
        ]
        if changed:
            # copied, since `counts` has returned the former ones
            self._figures, self._ratings = dict(self._figures), dict(self._ratings)
            for partition, part in changed:
                old = self._parts[partition]
                _replace_figures(self._figures, old.figures if old else {}, part.figures)
                _replace_ratings(self._ratings, old.ratings if old else {}, part.ratings)
                self._parts[partition] = part
        return bool(changed)

    async def _whole(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the offsets that views have reached which hold all that they ever answered.

        Asked before a partition is first read. Later its former counts show a view that lost data. Raises
        `ViewsUnavailable` for a view that is being folded again since its server was started.
        """
        states = await asyncio.gather(*map(self._views.state, partitions))
        if not all(state.same_run for state in states):
            raise _rebuilt()
        return {partition: state.position.offset for partition, state in zip(partitions, states, strict=True)}

    def _has_reached(self, partition: int, offset: int) -> bool:
        """Return whether the held counts contain everything before `offset`; True of a partition without them."""
        part = self._parts.get(partition)
        return partition not in self._parts or (part is not None and part.position.offset >= offset)

    @property
    def parts(self) -> tuple[ContestCounts, ...]:
        """The summed counts in the order of the partitions: all partitions after the first refresh."""
        return tuple(part for part in self._parts.values() if part is not None)

    @property
    def counts(self) -> Counts:
        """The current sums; later refreshes do not change the returned object."""
        parts = {partition: part for partition, part in self._parts.items() if part is not None}
        return joined(self._figures, self._ratings, parts)


def _rebuilt() -> ViewsUnavailable:
    return ViewsUnavailable("Counts are being computed again from the log; retry shortly.", retry_after_s=1)


def _went_back(held: ContestCounts | None, found: ContestCounts) -> bool:
    """Return whether a view lost writes and is being folded again: the held counts are newer, and valid."""
    if held is None or found.position.offset >= held.position.offset:
        return False
    return found.position.log_id in ("", held.position.log_id)


def _replace_figures(
    sums: dict[tuple[str, str], VoteSums],
    before: Mapping[tuple[str, str], VoteSums],
    after: Mapping[tuple[str, str], VoteSums],
) -> None:
    """Replace a partition's old part in the sums by its new one, which is smaller if the view lost data."""
    for name in before.keys() | after.keys():
        minus, plus = before.get(name, NOTHING), after.get(name, NOTHING)
        if minus is not plus and minus != plus:
            total = sums.get(name, NOTHING)
            sums[name] = VoteSums(
                total.count + plus.count - minus.count,
                total.unique + plus.unique - minus.unique,
                total.anonymous + plus.anonymous - minus.anonymous,
            )


def _replace_ratings(
    sums: dict[str, RatingSums], before: Mapping[str, RatingSums], after: Mapping[str, RatingSums]
) -> None:
    for name in before.keys() | after.keys():
        minus, plus = before.get(name, NO_RATINGS), after.get(name, NO_RATINGS)
        if minus is not plus and minus != plus:
            sums[name] = sums.get(name, NO_RATINGS) + plus + -minus


Render = Callable[["Snapshot"], EncodedResponse]


@dataclass(frozen=True)
class Snapshot:
    """A contest's records in `config` and its `counts`, the sums of `parts` by partition.

    `stored` is the contest's own record; `contest` and `sources` are derived from the records. `phase` is the
    contest's at the snapshot's creation, `updated` (us) the last change to the records. The `named` participants
    are in running order. After the end it and the titles of them and of `record` are those of the closing;
    `corrections` are the later ones.
    """

    account: str
    contest: Contest
    stored: Stored
    record: ContestRecord
    sources: Mapping[str, SourceConfig]
    config: ContestRecords
    named: Sequence[Stored]
    show: Show
    phase: Phase
    updated: int
    corrections: Sequence[Correction] = ()
    counts: Counts = field(default_factory=Counts)
    parts: Sequence[ContestCounts] = ()
    answers: dict[Render, EncodedResponse] = field(default_factory=dict)
    record_answers: dict[Render, EncodedResponse] = field(default_factory=dict)
    """Responses built from the records alone; later snapshots of the same records share them."""

    @cached_property
    def results(self) -> Results:
        return results_of(self.contest, self.sources, self.counts)

    @cached_property
    def approved(self) -> list[Stored]:
        """Participants that appear in results, in running order."""
        return [stored for stored in self.named if stored.key in self.results.participants]

    @property
    def approved_records(self) -> list[Stored]:
        """The records of `approved`, with their present titles and order."""
        return [stored for stored in in_running_order(self.config) if stored.key in self.results.participants]

    @cached_property
    def ranked(self) -> list[Ranked]:
        """All participants in the order of their votes; those that are not in results have none."""
        totals = self.results.totals
        found = [
            Ranked(totals[stored.key].count if stored.key in totals else 0, stored)
            for stored in self.config.participants
        ]
        return sorted(found, key=lambda each: each.place)

    @cached_property
    def frozen(self) -> "Snapshot | None":
        """The snapshot with the counts and participants that the show holds or reveals; None while it shows the
        present ones. Later changes of a status do not alter what screens show."""
        kept = show_in_force(self.config).get("frozen")
        if kept is None:
            return None
        then: dict[str, ParticipantStatus] = {
            stored.key: "approved" for stored in self.named if stored.key in kept["totals"]
        }
        contest = replace(self.contest, participants=then)
        return replace(self, contest=contest, sources={}, counts=thaw(kept), parts=(), answers={})

    @property
    def names_participants(self) -> bool:
        """Return whether callers without a key may see participants."""
        return self.record.contest_config.participant_visibility != "owner_only"

    @property
    def visibility(self) -> str:
        return self.record.contest_config.vote_visibility

    def at(self, now: int) -> "Snapshot":
        """Return the snapshot with the phase at `now` (microseconds since 1970)."""
        phase = self.contest.phase(now)
        return self if phase is self.phase else replace(self, phase=phase, answers={})

    @property
    def hides(self) -> bool:
        """True if the counts are hidden from keys without results:read_hidden, and from the public.

        A vote reveals `hidden_until_vote` only to its voter, not to keys. The log decides what may be seen: counts
        that are hidden until the end are until the contest is closed, whatever the time is here.
        """
        if self.waits_for_release:
            return True
        if self.visibility in ("shown", "hidden"):
            return self.visibility == "hidden"
        return not self.contest.closed

    @property
    def waits_for_release(self) -> bool:
        """True if the contest has ended, and its result is released by hand later.

        Here the clock of this process can only hide counts that the log still shows until the closing.
        """
        if self.record.contest_config.result_release == "at_end" or self.show.is_released:
            return False
        return self.contest.closed > 0 or self.phase is Phase.FINISHED

    def check_visible(self, permissions: Collection[str]) -> None:
        """Raise `ResultsHidden` if a key with these permissions may not see the counts now."""
        if "results:read_hidden" not in permissions and self.hides:
            raise ResultsHidden(self.visibility)

    def hides_from_public(self, has_voted: bool) -> bool:
        """Return whether the counts are hidden from callers without a key."""
        opens = has_voted and self.visibility == "hidden_until_vote" and not self.waits_for_release
        return self.hides and not opens

    @property
    def hides_from_screens(self) -> bool:
        """True if screens show no counts at all: a show can reveal hidden ones, or show all of them."""
        return self.show.state in ("live", "held") and self.hides_from_public(has_voted=False)

    def totals(self, permissions: Collection[str]) -> Mapping[str, VoteSums] | None:
        """Return the sums by participant in the results, "" for the contest; None if these permissions do not
        suffice."""
        may = "results:read" in permissions and ("results:read_hidden" in permissions or not self.hides)
        return self.results.totals if may else None

    def answer(self, render: Render) -> EncodedResponse:
        """Return the cached response of `render`."""
        return self._cached(self.answers, render)

    def record_answer(self, render: Render) -> EncodedResponse:
        """Return the cached response of `render`, which depends on no counts."""
        return self._cached(self.record_answers, render)

    def _cached(self, answers: dict[Render, EncodedResponse], render: Render) -> EncodedResponse:
        made = answers.get(render)
        if made is None:
            made = answers[render] = render(self)
        return made
