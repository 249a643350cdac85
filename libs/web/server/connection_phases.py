"""The state machine of an HTTP connection: its phases, the events, and what each event does in each phase.

`http_connection.py` follows `TABLE` and has no other state of its own. A connection is evicted, lost, or aborted
after too much dropped input in every phase: it is then CLOSED.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class ConnectionPhase(Enum):
    """The part of a request that the connection waits for, or of its end."""

    IDLE = "the first byte of a request"
    HEADERS = "the rest of its line and headers"
    BODY = "the rest of its body"
    ANSWER = "the response to the complete request; further input is held"
    REST = "the rest of the body of an answered request"
    LAST = "the last responses; input is dropped"
    END = "the client's end, after ours; input is dropped"
    CLOSED = "nothing"

    __hash__ = object.__hash__  # Enum's own is Python, and took a tenth of a direct request


class Event(Enum):
    """An event on a connection. Earlier requests are complete ones in the same packet, without a response yet."""

    BEGIN = "a request begins"
    HEADERS = "its headers are complete"
    COMPLETE = "it is complete, and others may follow"
    FINAL = "it is complete, and the last one: Connection: close, Upgrade, HTTP/1.0, or the server stops"
    ANSWERED = "the response to the latest request is complete"
    NEXT = "the responses to all earlier requests are complete"
    FAULT = "the request is malformed, too large or too slow"
    FAULT_BEHIND = "the same, behind earlier requests"
    FAULT_AMID = "the same, amid its own response"
    LATE = "the deadline is over: between requests, or of dropped input"
    CLOSE = "the server closes: after the last response, or as it stops"

    __hash__ = object.__hash__


class Action(Enum):
    """An effect beside the new phase, whose deadline begins (`http_connection.py`)."""

    NOTHING = "none"
    REFUSE = "respond with the error, then close the sending side"
    FINISH = "close the sending side"
    STOP = "announce the end in the last response to an earlier request"
    CLOSE = "close, after all that is written was sent"
    ABORT = "close at once"


class Step(NamedTuple):
    """The phase after an event; None stays in the phase, and starts no deadline."""

    phase: ConnectionPhase | None
    action: Action = Action.NOTHING


_, P = Step(None), ConnectionPhase
IDLE, HEADERS, BODY = Step(P.IDLE), Step(P.HEADERS), Step(P.BODY)
ANSWER, REST, LAST = Step(P.ANSWER), Step(P.REST), Step(P.LAST)
REFUSE, FINISH = Step(P.END, Action.REFUSE), Step(P.END, Action.FINISH)
STOP, CLOSE, ABORT = Step(P.LAST, Action.STOP), Step(P.CLOSED, Action.CLOSE), Step(P.CLOSED, Action.ABORT)

# fmt: off
_ROWS: Final = {
    # phase     BEGIN    HEADERS  COMPLETE FINAL    ANSWERED NEXT     FAULT    BEHIND   AMID     LATE     CLOSE
    P.IDLE:    (HEADERS, _,       _,       _,       _,       _,       REFUSE,  _,       _,       ABORT,   CLOSE),
    P.HEADERS: (_,       BODY,    _,       _,       _,       HEADERS, REFUSE,  STOP,    _,       _,       CLOSE),
    P.BODY:    (_,       _,       ANSWER,  LAST,    REST,    BODY,    REFUSE,  STOP,    ABORT,   _,       FINISH),
    P.ANSWER:  (HEADERS, _,       _,       _,       IDLE,    _,       _,       STOP,    _,       _,       CLOSE),
    P.REST:    (_,       _,       IDLE,    FINISH,  _,       _,       FINISH,  _,       _,       ABORT,   FINISH),
    P.LAST:    (_,       _,       _,       _,       _,       _,       _,       _,       _,       _,       FINISH),
    P.END:     (_,       _,       _,       _,       _,       _,       _,       _,       _,       ABORT,   CLOSE),
    P.CLOSED:  (_,       _,       _,       _,       _,       _,       _,       _,       _,       _,       _),
}
# fmt: on
TABLE: Final[Mapping[ConnectionPhase, Mapping[Event, Step]]] = {
    phase: dict(zip(Event, row, strict=True)) for phase, row in _ROWS.items()
}
"""The step of each event in each phase. A deadline that is over in HEADERS or BODY is a FAULT (408)."""
READING: Final = frozenset({P.IDLE, P.HEADERS, P.BODY, P.ANSWER, P.REST})
"""Phases whose input is parsed; in others it is dropped."""
