"""Metrics of the outcomes of votes."""

from functools import cache
from typing import Final, get_args

from prometheus_client import Counter

from libs.metrics.definitions import VOTES_ACCEPTED, VOTES_DEDUPLICATED, VOTES_REFUSED, VOTES_UNKNOWN
from libs.tally.errors import AppendUnknown, TallyError
from libs.tally.events import Source
from libs.voting.protocol.outcomes import Outcome

_ACCEPTED: Final = {source: VOTES_ACCEPTED.labels(source) for source in get_args(Source)}


def count(outcome: Outcome) -> None:
    """Count one outcome, once per answered vote."""
    if not isinstance(outcome, TallyError):
        (VOTES_DEDUPLICATED if outcome.replayed else _ACCEPTED[outcome.command.source]).inc()
    elif isinstance(outcome, AppendUnknown):
        VOTES_UNKNOWN.inc()
    else:
        _refused(outcome.code).inc()


@cache
def _refused(code: str) -> Counter:
    return VOTES_REFUSED.labels(code)
