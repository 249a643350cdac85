"""A contest and its counts at one moment, and the responses built from them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from libs.catalogue.contests.closing_record import show_in_force
from libs.catalogue.contests.corrections import Correction, in_running_order
from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.pagination import Ranked
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.results.contest_counts import Counts
from libs.results.contest_results import Results, results_of
from libs.results.frozen_counts import thaw
from libs.tally.contest import ParticipantStatus
from libs.tally.counts import VoteSums
from libs.views.votes.reply_types import ContestCounts
from services.query.count_visibility import CountVisibility
from services.query.encoded_response import EncodedResponse

Render = Callable[["Snapshot"], EncodedResponse]


@dataclass(frozen=True, kw_only=True)
class Snapshot(CountVisibility):
    """A contest's records in `config` and its `counts`, the sums of `parts` by partition.

    `stored` is the contest's own record; `contest` and `sources` are derived from the records. `phase` is the
    contest's at the snapshot's creation, `updated` (us) the last change to the records. The `named` participants
    are in running order. After the end it and the titles of them and of `record` are those of the closing;
    `corrections` are the later ones.
    """

    account: str
    stored: Stored
    sources: Mapping[str, SourceConfig]
    config: ContestRecords
    named: Sequence[Stored]
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

    def at(self, now: int) -> "Snapshot":
        """Return the snapshot with the phase at `now` (microseconds since 1970)."""
        phase = self.contest.phase(now)
        return self if phase is self.phase else replace(self, phase=phase, answers={})

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
