"""Result of one check."""

from dataclasses import dataclass

from libs.telemetry.redaction import redacted


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; `away` marks a server that does not respond."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    away: bool = False


def fine(name: str, detail: str) -> Finding:
    return Finding(name, True, redacted(detail))


def problem(name: str, detail: str, remedy: str, *, away: bool = False) -> Finding:
    return Finding(name, False, redacted(detail), remedy, away)
