"""A value on which log and view differ."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """A value on which log and view differ; `contest`, `participant` and `source` may be ""."""

    partition: int
    what: str
    log: str
    view: str
    contest: str = ""
    participant: str = ""
    source: str = ""
