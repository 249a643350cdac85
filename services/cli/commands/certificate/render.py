"""Renders a certificate for the terminal."""

from rich.console import Console
from rich.table import Table

from libs.contracts.certificates import Certificate
from libs.tally.time import timestamp


def show(certificate: Certificate) -> None:
    """Print a table on a terminal, otherwise one line per participant, in the order of rank."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    result, parts = certificate.result, certificate.partitions
    console.out(
        f"Contest {certificate.contest_key}, closing {certificate.seq}, ended {timestamp(certificate.end)}"
    )
    ranked = sorted(result.participants, key=lambda one: (one.rank, one.participant_key))
    if console.is_terminal and ranked:
        table = Table("rank", "participant", "votes", "voters", box=None, header_style="dim")
        for one in ranked:
            table.add_row(str(one.rank), one.participant_key, f"{one.count:,}", f"{one.unique_voter_count:,}")
        console.print(table, soft_wrap=False)
    else:
        for one in ranked:
            counted = f"votes={one.count} voters={one.unique_voter_count}"
            console.out(f"participant: rank={one.rank} key={one.participant_key} {counted}")
    for source in result.sources:
        aside = "" if source.is_in_total else ", not in the total"
        console.out(f"{source.source}: {source.count:,} votes{aside}")
    console.out(
        f"{result.count:,} votes of {result.unique_voter_count:,} voters "
        f"({result.anonymous_voter_count:,} anonymous), from {sum(part.leaves for part in parts):,} records "
        f"in {len(parts)} partitions"
    )
    console.out(f"sha256 {certificate.sha256}")
