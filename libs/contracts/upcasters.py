"""Old versions of events, which stay in the log for ever, and their conversion to current events.

To give an event a version 2:
1. Move its class here as it is, named `<Event>V1`, with its `type` name and as deprecated (see `FenceV1`).
2. Change the class in `libs.tally.events`, with the type name `"<Event>.2"`: rules and folds use only this one.
3. Add it to `OldEvent`, and its conversion to `UPCASTS`; add a log with the new version to
   `tests/libs/contracts/logs`: all logs there must fold to the same view.

All readers must support a version before any writer uses it: older projectors stop at its events until they are
upgraded. With several projectors, one release reads it and the next writes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ConfigDict

from libs.tally.events import Fence

DEPRECATED: Final = ConfigDict(json_schema_extra={"deprecated": True})


@dataclass(frozen=True, slots=True)
class FenceV1:
    """A fence that is valid after any lower one, unless `after` names one; the oldest fences have no `after`."""

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence"] = "Fence"

    __pydantic_config__ = DEPRECATED


OldEvent = FenceV1

UPCASTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    FenceV1: lambda old: Fence(old.incarnation, old.after, old.run),
}
"""Converts each old version of an event in the votes log directly to the current one."""
