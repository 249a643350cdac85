"""Phase of a contest, from its record alone."""

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.resource_definition import Document
from libs.tally.contest import Contest, Phase
from libs.tally.time_conversion import microseconds, parse_timestamp


def phase_of(document: Document, now: int) -> Phase:
    """Return the phase at `now` (us) of the contest with this stored document."""
    rules, closing = document.get("contest_config", {}), closing_of(document)
    return Contest(
        key="",
        account="",
        version=0,
        publish=_us(document.get("publish")),
        start=_us(rules.get("start")),
        end=_us(rules.get("end")),
        closed=0 if closing is None else closing.seq,
    ).phase(now)


def _us(text: str | None) -> int | None:
    return None if text is None else microseconds(parse_timestamp(text))
