"""Compares the demo's counts with a fold of the log and with the responses that the voters received."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from libs.audit.comparison import compare
from libs.audit.log_fold import LogFold
from libs.audit.report import Report, counted_casts
from libs.deployment.deployment import Deployment
from libs.tally.events import VoteCast
from services.cli.commands.demo.sample_contest import Sample
from services.cli.commands.demo.voter_responses import AcceptedResults


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Differences between views, log and responses.

    `verify` compares views and log; the rest compares the log with the responses to voters, by vote id.
    `vote_ids_of_others` were not sent by the simulated voters; `votes_shown` is the count returned by the API.
    """

    processed_to_the_end: bool
    vote_ids_accepted: int
    vote_ids_in_doubt: int
    accepted_but_not_counted: list[str]
    counted_but_refused: list[str]
    vote_ids_of_others: int
    votes_by_the_log: int
    votes_shown: int | None
    miscounted: list[str]
    verify: Report

    @property
    def equal(self) -> bool:
        wrong = self.accepted_but_not_counted or self.counted_but_refused or self.miscounted
        return self.verify.equal and self.processed_to_the_end and not wrong


async def check_counts(
    deployment: Deployment,
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

    report = await compare(deployment, sample.key, inspect=collect)
    counted = {cast.vote_id for cast in casts} & ids
    accepted = set(results.accepted)
    return CheckResult(
        verify=report,
        processed_to_the_end=folded,
        vote_ids_accepted=len(accepted),
        vote_ids_in_doubt=len(results.in_doubt),
        accepted_but_not_counted=sorted(accepted - counted),
        counted_but_refused=sorted(counted - accepted - set(results.in_doubt)),
        vote_ids_of_others=sum(cast.vote_id not in ids for cast in casts),
        votes_by_the_log=sum(cast.choices[0][1] for cast in casts),
        votes_shown=None if counts is None else int(counts["count"]),
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
