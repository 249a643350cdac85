"""Decodes a contest's counts from replies of `votes_counts` and `votes_counts_at`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final

from libs.contracts.log_records import Position
from libs.tally.contest import MILLION, UNLIMITED
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.sources import FoldedReport
from libs.tally.voter_ledger import VoteStatus
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.reply_types import ContestCounts, SourceCounts, SourceFigures, SourceRow
from libs.views.votes.serialization import text

ROWS, AFTER, UPTO, LAST, LINEAGE = 4, 9, 10, 11, 12
"""Indexes in a reply of counts: rows, the numbers after and up to which it contains changes, the number of the
latest change, and the view in which these numbers are valid."""


def joined(parts: Sequence[Sequence[Any]], at: Sequence[Any]) -> list[Any]:
    """Join several replies of `votes_counts` or `votes_counts_at`, with the position and last change of `at`."""
    lists = zip(*(part[ROWS:AFTER] for part in parts), strict=True)
    return [*at[:ROWS], *(list(chain.from_iterable(each)) for each in lists), *at[AFTER:]]


def follow_each_other(pages: Sequence[Sequence[Any]]) -> bool:
    """Return whether each page begins where the previous one ended, so all are of one view."""
    return all(page[AFTER] == previous[UPTO] for previous, page in pairwise(pages))


NO_COUNTS: Final = ContestCounts(Position("", 0), UNLIMITED, {})


def contest_counts(reply: Sequence[Any], base: ContestCounts = NO_COUNTS) -> ContestCounts:
    """Decode a reply of `votes_counts` or `votes_counts_at`, which contains all that changed since `base`."""
    log, offset, changed, swaps, rows, ratings, sources, fields, reported, _, _, last, lineage = reply
    figures = dict(base.figures)
    top: Sequence[int] = ()
    for name, packed in pairs_of(rows):
        participant, row = name.decode(), unpack(packed)
        figures[participant, "c-free"] = VoteSums(*row[1:4])
        figures[participant, "c-paid"] = VoteSums(*row[4:7])
        figures[participant, ""] = VoteSums(row[1] + row[4], *row[7:9])
        if not participant:
            top = row
    return ContestCounts(
        Position(log.decode(), offset),
        changed,
        figures,
        swaps=swaps,
        updated_ms=top[10] if top else None,
        ids={status: top[11 + status] for status in VoteStatus} if top else {},
        closed=top[17] if top else 0,
        reopened=top[18] if top else 0,
        ratings={
            **base.ratings,
            **{name.decode(): rating_sums(unpack(packed)) for name, packed in pairs_of(ratings)},
        },
        sources=_sources(sources, dict(zip(fields, reported, strict=True)), top[18] if top else 0, base.sources),
        numbered=last,
        lineage=lineage.decode(),
    )


def _sources(
    sources: Sequence[bytes],
    changed: Mapping[bytes, bytes | None],
    reopened: int,
    base: Mapping[str, SourceCounts],
) -> dict[str, SourceCounts]:
    rows = {name.decode(): source_row(unpack(packed)) for name, packed in pairs_of(sources)}
    figures = {name: dict(base[name].figures) if name in base else {} for name in rows}
    held = {name: dict(base[name].held) if name in base else {} for name in rows}
    for field in changed:
        if field.decode() in rows:  # a release: what was held before is in force
            figures[field.decode()] |= held[field.decode()]
            held[field.decode()] = {}
    for field, packed in changed.items():
        name, _, mapped_id = field.decode().partition("\0")
        if not packed or name not in rows:
            continue  # a release, or a view that lost data, which `tally verify` reports
        its = source_figures(unpack(packed))
        is_held = its.held is not None and its.releases == rows[name].releases
        figures[name][mapped_id] = its.held if its.held is not None and not is_held else its.figures
        held[name].pop(mapped_id, None)
        if its.held is not None and is_held:
            held[name][mapped_id] = its.held
    return {
        name: SourceCounts(row.closed if row.closed > reopened else 0, row.updated_ms, figures[name], held[name])
        for name, row in rows.items()
    }


def pairs_of(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def rating_sums(packed: Sequence[Any]) -> RatingSums:
    """Decode a value of the hash `ratings`."""
    count, whole, millionths, subs, values = packed
    each = zip(subs[::4], subs[1::4], subs[2::4], subs[3::4], strict=True)
    sub_ratings = {name.decode(): (its, sums * MILLION + rest) for name, its, sums, rest in each}
    return RatingSums(count, whole * MILLION + millionths, sub_ratings, tuple(values))


def source_row(packed: Sequence[int]) -> SourceRow:
    """Decode a value of the hash `sources`."""
    return SourceRow(*packed)


def folded_report(packed: Sequence[Any]) -> FoldedReport:
    """Decode a value of the hash `reports`."""
    content, offset, late, held = packed
    return FoldedReport(text(content), offset, late == 1, tuple(map(bytes.decode, held)))


def source_figures(packed: Sequence[Any]) -> SourceFigures:
    """Decode a value of the hash `figures`."""
    *numbers, minute = packed[:4]
    if len(packed) == 4:
        return SourceFigures(VoteSums(*numbers), minute)
    *held, releases = packed[4]
    return SourceFigures(VoteSums(*numbers), minute, VoteSums(*held), releases)
