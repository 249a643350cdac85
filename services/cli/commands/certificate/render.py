"""Renders a certificate."""

from collections.abc import Iterator

from libs.contracts.certificates import Certificate
from libs.tally.time_conversion import timestamp
from services.cli.contest_lookup import Titles
from services.cli.render import Block, Rows, plural


def certificate_text(certificate: Certificate, titles: Titles) -> Iterator[Block]:
    """Yield the participants in the order of rank, then sources, sums and the hash."""
    result, parts = certificate.result, certificate.partitions
    yield f"Contest {titles}, closing {certificate.seq}, ended {timestamp(certificate.end)}"
    ranked = sorted(result.participants, key=lambda one: (one.rank, one.participant_key))
    yield Rows(
        [
            {
                "rank": one.rank,
                "participant": one.participant_key,
                "title": titles.of(one.participant_key),
                "votes": one.count,
                "voters": one.unique_voter_count,
            }
            for one in ranked
        ]
    )
    for source in result.sources:
        aside = "" if source.is_in_total else ", not in the total"
        yield f"{source.source}: {plural(source.count, 'vote')}{aside}"
    yield (
        f"{plural(result.count, 'vote')} of {plural(result.unique_voter_count, 'voter')} "
        f"(of which {result.anonymous_voter_count:,} anonymous), "
        f"from {plural(sum(part.leaves for part in parts), 'record')} "
        f"in {len(parts)} partitions"
    )
    yield f"sha256 {certificate.sha256}"
