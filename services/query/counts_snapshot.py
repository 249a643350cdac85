"""A contest and its counts at one moment, and the responses built from them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.pagination import Ranked
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.results.contest_counts import Counts
from libs.results.contest_results import Results, results_of
from libs.tally.contest import Contest, Phase
from libs.tally.counts import VoteSums
from libs.views.reply_types import ContestCounts
from services.query.encoded_response import EncodedResponse

Render = Callable[["Snapshot"], EncodedResponse]


@dataclass(frozen=True)
class Snapshot:
    """A contest's records in `config` and its `counts`, the sums of `parts` by partition.

    `stored` is the contest's own record; `contest`, `record` and `sources` are derived from the records. `phase`
    is the contest's at the snapshot's creation.
    """

    account: str
    contest: Contest
    stored: Stored
    record: ContestRecord
    sources: Mapping[str, SourceConfig]
    config: ContestRecords
    phase: Phase
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
        """Participants that appear in results, by running number."""
        return [stored for stored in self.config.participants if stored.key in self.results.participants]

    @cached_property
    def ranked(self) -> list[Ranked]:
        """All participants in the order of their votes; those that are not in results have none."""
        totals = self.results.totals
        found = [
            Ranked(totals[stored.key].count if stored.key in totals else 0, stored)
            for stored in self.config.participants
        ]
        return sorted(found, key=lambda each: each.place)

    @property
    def visibility(self) -> str:
        return self.record.contest_config.vote_visibility

    def at(self, now: int) -> "Snapshot":
        """Return the snapshot with the phase at `now` (microseconds since 1970)."""
        phase = self.contest.phase(now)
        return self if phase is self.phase else replace(self, phase=phase, answers={})

    def hides(self, now: int) -> bool:
        """Return whether the counts are hidden at `now` from keys without results:read_hidden, and from the
        public.

        A vote reveals `hidden_until_vote` only to its voter, not to keys.
        """
        if self.visibility in ("shown", "hidden"):
            return self.visibility == "hidden"
        return self.contest.end is None or now < self.contest.end

    def hides_from_public(self, now: int, has_voted: bool) -> bool:
        """Return whether the counts are hidden from callers without a key."""
        return self.hides(now) and not (has_voted and self.visibility == "hidden_until_vote")

    def totals(self, permissions: Collection[str], now: int) -> Mapping[str, VoteSums] | None:
        """Return the sums by participant in the results, "" for the contest; None if these permissions do not
        suffice."""
        may = "results:read" in permissions and ("results:read_hidden" in permissions or not self.hides(now))
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
