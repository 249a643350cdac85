"""Log filter that limits repeated lines, and reports the number of suppressed ones.

While Kafka is unavailable, its client logs the same few lines thousands of times a minute.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 15.0
"""Seconds after a line during which lines of the same kind are suppressed."""
MOST_KINDS: Final = 10_000
LIBRARIES: Final = ("aiokafka", "asyncio", "faststream", "kafka", "redis")
"""Libraries' lines are of one kind if the same statement logs them; ours if they have the same text."""


@dataclass(slots=True)
class _Repeated:
    began: float
    left_out: int = 0


class RateLimit(logging.Filter):
    """Passes warnings and errors once per kind and `WINDOW_S`.

    The next line of a kind that passes has the number of suppressed ones as `left_out`. Critical lines, and those
    below warnings, always pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[object, ...], _Repeated] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not logging.WARNING <= record.levelno < logging.CRITICAL:
            return True
        kind, now = _kind(record), self._clock()
        known = self._kinds.pop(kind, None)
        if known is not None and now - known.began < WINDOW_S:
            known.left_out += 1
            self._kinds[kind] = known
            return False
        self._forget(now)
        self._kinds[kind] = _Repeated(now)
        if known is not None and known.left_out:
            record.left_out = known.left_out
        return True

    def _forget(self, now: float) -> None:
        """Drop expired kinds without suppressed lines; if there are too many, also the least recently repeated."""
        while self._kinds:
            kind, known = next(iter(self._kinds.items()))
            is_over = now - known.began >= WINDOW_S and not known.left_out
            if not is_over and len(self._kinds) < MOST_KINDS:
                return
            del self._kinds[kind]


def _kind(record: logging.LogRecord) -> tuple[object, ...]:
    where = record.name, record.levelno, record.pathname, record.lineno
    if record.name.partition(".")[0] in LIBRARIES:
        return *where, record.exc_info[0] if record.exc_info else None
    return *where, record.getMessage()
