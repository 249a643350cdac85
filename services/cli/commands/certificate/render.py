"""Renders a certificate."""

from collections.abc import Iterator

from libs.contracts.certificates import Certificate
from libs.tally.time import timestamp
from services.cli.render import Block, Rows


def certificate_text(certificate: Certificate) -> Iterator[Block]:
    """Yield the participants in the order of rank, then sources, sums and the hash."""
    result, parts = certificate.result, certificate.partitions
    yield f"Contest {certificate.contest_key}, closing {certificate.seq}, ended {timestamp(certificate.end)}"
    ranked = sorted(result.participants, key=lambda one: (one.rank, one.participant_key))
    names = "rank", "participant", "votes", "voters"
    cells = [(one.rank, one.participant_key, one.count, one.unique_voter_count) for one in ranked]
    yield Rows([dict(zip(names, row, strict=True)) for row in cells])
    for source in result.sources:
        aside = "" if source.is_in_total else ", not in the total"
        yield f"{source.source}: {source.count:,} votes{aside}"
    yield (
        f"{result.count:,} votes of {result.unique_voter_count:,} voters "
        f"({result.anonymous_voter_count:,} anonymous), from {sum(part.leaves for part in parts):,} records "
        f"in {len(parts)} partitions"
    )
    yield f"sha256 {certificate.sha256}"
