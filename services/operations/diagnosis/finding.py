"""What one check found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`way_out` says what to do about a problem; `away` marks a server that does not answer."""

    name: str
    ok: bool
    detail: str
    way_out: str = ""
    away: bool = False


def fine(name: str, detail: str) -> Finding:
    return Finding(name, True, detail)


def problem(name: str, detail: str, way_out: str, *, away: bool = False) -> Finding:
    return Finding(name, False, detail, way_out, away)
