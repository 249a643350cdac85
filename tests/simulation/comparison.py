"""A fold and a view as one flat table each, compared cell by cell."""

from typing import Any

from libs.audit.ledger_facts import voter_facts, waiting_facts
from libs.tally.counts import VoteSums
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoteStatus
from libs.views.votes.ledger_export import export
from libs.views.votes.reply_types import PartitionState
from tests.support.clients.vote_views import VoteViews

Table = dict[tuple[Any, ...], Any]


def differing(view: Table, fold: Table) -> list[str]:
    """A line for each cell that is not the same."""
    cells = view.keys() | fold.keys()
    return [
        f"{cell}: {view.get(cell)} is not {fold.get(cell)}" for cell in cells if view.get(cell) != fold.get(cell)
    ]


def described(tally: PartitionTally) -> Table:
    """Return a fold as a table. Names, ids and pseudonyms appear as in the views."""
    table = _of_partition(tally)
    for name, contest in tally.contests.items():
        if contest.last_offset < 0:
            continue
        totals = {participant: 0 for participant, _ in contest.figures}
        for (participant, source), figures in contest.figures.items():
            if source:
                totals[participant] += figures.count
                table["figures", name, participant, source] = figures
        for participant, total in totals.items():
            overall = contest.figures[participant, ""]
            table["figures", name, participant, ""] = VoteSums(total, overall.unique, overall.anonymous)
        table["ids", name] = {status: contest.ids[status] for status in VoteStatus}
        table["last", name] = contest.last_offset, contest.last_time_ms
        table |= _of_contest(name, contest)
        for source, kept in contest.sources.items():
            for report_id, report in kept.reports.items():
                table["ledger", name, "report", source, report_id] = report
        facts = *voter_facts(contest), *waiting_facts(contest)
        table |= {("ledger", name, *fact): value for fact, value in facts}
    return _without_empty(table)


async def described_view(views: VoteViews, partition: int, contests: set[str]) -> Table:
    """Return the views of one partition about `contests`, as the same table."""
    table = _of_partition(await views.state(partition))
    for contest in contests:
        counts = await views.counts(partition, contest)
        if counts is None or counts.changed < 0:
            continue
        for (participant, source), figures in counts.figures.items():
            table["figures", contest, participant, source] = figures
        table["ids", contest] = dict(counts.ids)
        table["last", contest] = counts.changed, counts.updated_ms
        table |= _of_contest(contest, counts)
        for part in ("voters", "shares", "spill", "details", "voids", "waiting", "reports"):
            for page in await export(views, partition, part, contest):
                table |= {("ledger", contest, *fact): value for fact, value in page.facts.items()}
    return _without_empty(table)


def _of_partition(its: PartitionTally | PartitionState) -> Table:
    return {("fence",): its.fence, ("stats",): (its.fenced, its.duplicates, its.overruled)}


def _of_contest(name: str, its: Any) -> Table:
    """Return what a fold and a view have alike."""
    table: Table = {("closing", name): (its.closed, its.reopened)}
    for participant, sums in its.ratings.items():
        table["rating", name, participant] = sums
    for source, kept in its.sources.items():
        table["source", name, source] = kept.closed, kept.updated_ms, kept.figures, kept.held
    return table


def _without_empty(table: Table) -> Table:
    return {cell: value for cell, value in table.items() if value != VoteSums()}
