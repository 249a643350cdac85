"""Compares the demo's counts with a fold of the log and with the responses that the voters received."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from libs.audit.comparison import compare
from libs.audit.log_fold import LogFold
from libs.audit.report import Report, counted_casts
from libs.deployment.deployment import Deployment
from libs.tally.events import VoteCast
from services.cli.commands.demo.results import AcceptedResults
from services.cli.commands.demo.sample import Sample


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Differences between views, log and responses.

    `report` compares views and log; the rest compares the log with the responses to voters, by vote id. `lost`
    were accepted and are not counted, `unasked` are counted although they were refused; `of_others` counts votes
    not sent by the simulated voters. `shown` is the count returned by the API.
    """

    report: Report
    folded: bool
    accepted: int
    in_doubt: int
    lost: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    of_others: int = 0
    votes: int = 0
    shown: int | None = None
    miscounted: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        wrong = self.lost or self.unasked or self.miscounted
        return self.report.equal and self.folded and not wrong

    def as_json(self) -> dict[str, Any]:
        return {
            "equal": self.good,
            "folded_to_the_end": self.folded,
            "vote_ids_accepted": self.accepted,
            "vote_ids_in_doubt": self.in_doubt,
            "accepted_but_not_counted": self.lost,
            "counted_but_refused": self.unasked,
            "vote_ids_of_others": self.of_others,
            "votes_by_the_log": self.votes,
            "votes_shown": self.shown,
            "miscounted": self.miscounted,
            "verify": self.report.as_json(),
        }


async def check_counts(
    stack: Deployment,
    sample: Sample,
    results: AcceptedResults,
    ids: set[str],
    counts: dict[str, Any] | None,
    *,
    folded: bool,
) -> CheckResult:
    """Compare the counts; `ids` are all ids of the simulated votes, `counts` is the final vote count record."""
    casts: list[VoteCast] = []

    def collect(fold: LogFold) -> None:
        casts.extend(counted_casts(fold, sample.key))

    report = await compare(stack, sample.key, inspect=collect)
    counted = {cast.vote_id for cast in casts} & ids
    accepted = set(results.accepted)
    return CheckResult(
        report=report,
        folded=folded,
        accepted=len(accepted),
        in_doubt=len(results.in_doubt),
        lost=sorted(accepted - counted),
        unasked=sorted(counted - accepted - set(results.in_doubt)),
        of_others=sum(cast.vote_id not in ids for cast in casts),
        votes=sum(cast.choices[0][1] for cast in casts),
        shown=None if counts is None else int(counts["count"]),
        miscounted=_miscounted(casts, ids, results, counts),
    )


def _miscounted(
    casts: list[VoteCast], ids: set[str], results: AcceptedResults, counts: dict[str, Any] | None
) -> list[str]:
    """List the participants and sources whose API counts differ from the accepted votes (plus votes of others)."""
    if counts is None:
        return ["the counts could not be read"]
    expected: Counter[tuple[str, str]] = Counter()
    settled = {cast.vote_id for cast in casts}
    for ballot in (*results.accepted.values(), *results.in_doubt.values()):
        if ballot.vote_id in results.accepted or ballot.vote_id in settled:
            expected[ballot.participant, ballot.source] += ballot.count
    for cast in casts:
        if cast.vote_id not in ids:
            expected[cast.choices[0][0], cast.source] += cast.choices[0][1]
    shown: Counter[tuple[str, str]] = Counter()
    for participant, row in counts["participants"].items():
        for source in row["vote_sources"]:
            shown[participant, source["source"]] += source["count"]
    return [
        f"{participant} {source}: expected {expected[participant, source]}, API {shown[participant, source]}"
        for participant, source in sorted(expected.keys() | shown.keys())
        if expected[participant, source] != shown[participant, source]
    ]
