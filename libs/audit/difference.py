"""One figure on which log and view disagree."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure on which log and view disagree; "" where it is not about a contest, participant or source."""

    partition: int
    what: str
    log: str
    view: str
    contest: str = ""
    participant: str = ""
    source: str = ""
