"""A fold and a view as one flat table each, compared cell by cell."""

from typing import Any

from libs.tally.counts import VoteSums
from libs.tally.events import VoteRestored
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import FoldedVote, VoteStatus
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.ledger_scan import read_share, read_voter
from libs.views.votes.serialization import digest, raw, text
from libs.views.votes.vote_records import StoredRecord, read_record
from libs.views.votes.vote_views import VoteViews

Table = dict[tuple[Any, ...], Any]


def differing(view: Table, fold: Table) -> list[str]:
    """A line for each cell that is not the same."""
    cells = view.keys() | fold.keys()
    return [
        f"{cell}: {view.get(cell)} is not {fold.get(cell)}" for cell in cells if view.get(cell) != fold.get(cell)
    ]


def described(tally: PartitionTally) -> Table:
    """Return a fold as a table. Names, ids and pseudonyms appear as in the views."""
    table: Table = {
        ("fence",): tally.fence,
        ("stats",): (tally.fenced, tally.duplicates, tally.overruled),
    }
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
        table["closing", name] = contest.closed, contest.reopened
        for participant, sums in contest.ratings.items():
            table["rating", name, participant] = sums
        for source, kept in contest.sources.items():
            table["source", name, source] = kept.closed, kept.updated_ms, kept.figures, kept.held
            for report_id, report in kept.reports.items():
                table["report", name, source, report_id] = (
                    report.content,
                    report.offset,
                    report.late,
                    report.held,
                )
        for (voter, vote_id), (_, offset) in contest.waiting.items():
            table["waiting", name, raw(voter) + digest(vote_id)] = [offset]
        for (voter, vote_id), voids in contest.waiting_voids.items():
            table["waiting", name, raw(voter) + digest(vote_id) + b"V"] = [
                [offset, int(isinstance(event, VoteRestored)), event.void.encode()] for event, offset in voids
            ]
        for voter, standing in contest.voters.items():
            table["voter", name, raw(voter)] = standing.anonymous, standing.epoch, standing.latest
            for (slot, source), vote_id in standing.slots.items():
                table["slot", name, raw(voter), slot, source] = digest(vote_id)
            for vote in standing.votes.values():
                cell = "record", name, raw(voter), digest(vote.cast.vote_id)
                table[cell] = _record(vote)
                if vote.voids:
                    field = raw(voter) + digest(vote.cast.vote_id)
                    table["voids", name, field] = [its.void.encode() for its in vote.voids]
            for (participant, source, epoch), used in standing.used.items():
                table["used", name, raw(voter), participant, source, epoch] = used.votes, used.limit, used.active
    return {cell: value for cell, value in table.items() if value != VoteSums()}


def _record(vote: FoldedVote) -> tuple[Any, ...]:
    cast = vote.cast
    left = (-1 if n is None else n for n in (cast.remaining_participant, cast.remaining_contest))
    rating = None
    if cast.rating is not None:
        rating = cast.rating.value, dict(cast.rating.sub_ratings)
    what = raw(cast.content), cast.accepted_at, vote.offset, tuple(cast.choices), cast.source, vote.status
    return *what, *left, cast.next_free_vote_at or 0, vote.epoch, rating


async def described_view(views: VoteViews, partition: int, contests: set[str]) -> Table:
    """Return the views of one partition about `contests`, as the same table."""
    state = await views.state(partition)
    table: Table = {
        ("fence",): state.fence,
        ("stats",): (state.fenced, state.duplicates, state.overruled),
    }
    for contest in contests:
        counts = await views.counts(partition, contest)
        if counts is None or counts.changed < 0:
            continue
        for (participant, source), figures in counts.figures.items():
            table["figures", contest, participant, source] = figures
        table["ids", contest] = dict(counts.ids)
        table["last", contest] = counts.changed, counts.updated_ms
        table["closing", contest] = counts.closed, counts.reopened
        for participant, sums in counts.ratings.items():
            table["rating", contest, participant] = sums
        for source, kept in counts.sources.items():
            table["source", contest, source] = kept.closed, kept.updated_ms, kept.figures, kept.held
        table.update({cell: value async for cell, value in _ledger(views, partition, contest)})
    return {cell: value for cell, value in table.items() if value != VoteSums()}


async def _ledger(views: VoteViews, partition: int, contest: str) -> Any:
    base = views._base(partition)

    async def kept(what: str) -> dict[bytes, bytes]:
        flat = await views._valkey.call("HGETALL", f"{base}:g{views.generation or 1}:{what}:{contest}")
        return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))

    names = {int(index): name.decode() for index, name in (await kept("names")).items()} | {0: ""}
    spilled, details, shares = await kept("spill"), await kept("details"), await kept("shares")
    found = 0
    for field, packed in (await kept("waiting")).items():
        what = unpack(packed)
        yield ("waiting", contest, field), what if isinstance(what[0], list) else what[:1]
    for field, packed in (await kept("voids")).items():
        yield ("voids", contest, field), unpack(packed)
    for field, packed in (await kept("reports")).items():
        source, _, report_id = field.decode().partition("\0")
        content, offset, late, held = unpack(packed)
        report = text(content), offset, late == 1, tuple(name.decode() for name in held)
        yield ("report", contest, source, report_id), report
    for voter, packed in (await kept("voters")).items():
        row = read_voter(packed)
        yield ("voter", contest, voter), (row.anonymous, row.epoch, row.latest)
        for (index, source), held in row.slots.items():
            yield ("slot", contest, voter, names[index], source), held
        own = [value[:1] + key[-12:] + value[1:] for key, value in spilled.items() if key[:-12] == voter]
        assert len(own) == row.spilled, f"{voter!r} has {len(own)} spilled records, not {row.spilled}"
        found += row.spilled
        for record in [*row.records, *own]:
            its = read_record(record)
            more = details.pop(voter + its.digest) if its.is_detailed else None
            yield ("record", contest, voter, its.digest), _row(its, names, more)
        for (index, source, epoch), used in row.used.items():
            yield ("used", contest, voter, names[index], source, epoch), used
        for field in [field for field in shares if field[:-3] == voter]:
            share = read_share(shares.pop(field)).merged(row.epoch)
            assert {index for index, *_ in share.used} >= {index for index, _ in share.slots}
            for (index, source, epoch), used in share.used.items():
                yield ("used", contest, voter, names[index], source, epoch), used
            for (index, source), held in share.slots.items():
                yield ("slot", contest, voter, names[index], source), held
    assert not shares, "shares of nobody"
    assert found == len(spilled), "spilled records of nobody"
    assert not details, "details of nothing"


def _row(its: StoredRecord, names: dict[int, str], details: bytes | None) -> tuple[Any, ...]:
    unpacked: tuple[Any, ...] = unpack(details) if details else (False, False)
    chosen, rated = unpacked
    chosen = chosen or ([its.participant, its.count] if its.participant else [])
    choices = tuple((names[index], votes) for index, votes in zip(chosen[::2], chosen[1::2], strict=True))
    rating = None
    if rated:
        subs = (name.decode() for name in rated[1][::2])
        rating = rated[0], dict(zip(subs, rated[1][1::2], strict=True))
    left = its.remaining_participant, its.remaining_contest
    what = raw(its.content), its.accepted_at, its.offset, choices, its.source, VoteStatus(its.status)
    return *what, *left, its.next_free_vote_at, its.epoch, rating
