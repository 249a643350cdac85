"""Old versions of events, as they lie in the log for ever, and what each of them says in today's words.

To give an event a version 2:
1. Move its class here as it is, named `<Event>V1`, with its `type` name and as deprecated (see `FenceV1`).
2. Change the class in `libs.tally.events`, with the type name `"<Event>.2"`: rules and folds know today's only.
3. Add it to `OldEvent`, and a row to `LIFTS` that says the same in today's words; give the logs in
   `tests/libs/contracts/logs` one more, the same as it is written from now on: all of them give one view.

Whoever reads must know a version before anybody writes it, else it goes to quarantine: where several projectors
run, one release reads it, and the next writes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ConfigDict

from libs.tally.events import Fence

DEPRECATED: Final = ConfigDict(json_schema_extra={"deprecated": True})


@dataclass(frozen=True, slots=True)
class FenceV1:
    """A fence that holds behind any lower one, unless it names `after`: the first ones named nothing."""

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence"] = "Fence"

    __pydantic_config__ = DEPRECATED


OldEvent = FenceV1

LIFTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    FenceV1: lambda old: Fence(old.incarnation, old.after, old.run),
}
"""From each old version of an event in the votes log straight to today's."""
