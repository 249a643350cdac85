"""The guards of the protocol, each taken away: the simulation must notice, or it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from libs.contracts.log import Position
from libs.tally.admission import Granted
from libs.tally.contest import UNLIMITED
from libs.tally.events import Event, VoteCast
from tests.libs.views.simulation.model import ModelLedger, Reservation


class NoIncarnationInTheFold(ModelLedger):
    """Late records of an older incarnation count."""

    def fold(self, event: Event, offset: int) -> None:
        if isinstance(event, VoteCast):
            event = replace(event, incarnation=self.s.tally.fence)
        super().fold(event, offset)


class NoRunId(ModelLedger):
    """A restarted server that lost writes takes itself for the one before."""

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        super().restart(snapshot, clock_step_ms)
        self.run -= 1


class PendingOutlivesTheFence(ModelLedger):
    def drop_pending(self) -> None:
        pass


class ReleaseOfAnyIncarnation(ModelLedger):
    def may_release(self, incarnation: int) -> bool:
        return self.is_open()


class NoDedup(ModelLedger):
    def fold(self, event: Event, offset: int) -> None:
        if isinstance(event, VoteCast):
            event = replace(event, vote_id=f"{event.vote_id}@{offset}")
        super().fold(event, offset)


class NoCompareAndSet(ModelLedger):
    """A projector folds wherever the view stands."""

    def apply(self, start: Position, events: Any, end: int) -> None:
        self.s.position = Position(start.log_id, start.offset)
        super().apply(start, events, end)


class JoinerGoesByItsOwnConfiguration(ModelLedger):
    """Simulated by limits that the first attempt was not admitted by."""

    def joined(self, first: Reservation) -> Granted:
        return replace(super().joined(first), max_participant=0, max_contest=0)


class ConfigurationByAnyonesWord(ModelLedger):
    """A sleeping projector's old version comes into force where none is."""

    def raise_config(self, contest: str, version: int, incarnation: int | None = None) -> None:
        if incarnation is None:
            self.s.config[contest] = max(version, self.s.config.get(contest, UNLIMITED))
        else:
            super().raise_config(contest, version, incarnation)


MODEL_MUTATIONS = [
    NoIncarnationInTheFold,
    NoRunId,
    PendingOutlivesTheFence,
    ReleaseOfAnyIncarnation,
    NoDedup,
    NoCompareAndSet,
    JoinerGoesByItsOwnConfiguration,
    ConfigurationByAnyonesWord,
]

LUA_MUTATIONS = {
    "no incarnation in the fold": [("if n ~= state.fence then", "if false then")],
    "no run id": [("open = v[1] == 'open' and v[2] == run,", "open = v[1] == 'open',")],
    "pending outlives the fence": [("call('DEL', base .. ':pending', base .. ':due')", "")],
    "no dedup": [
        (
            "if find_record(state.views, contest, voter, standing, digest) or c.spilling[voter .. digest] then",
            "if false then",
        )
    ],
    "no compare-and-set": [
        ("if at ~= first or (log ~= '' and log ~= args[1]) then", "if log ~= '' and log ~= args[1] then")
    ],
    "a joiner goes by its own limits": [
        (
            "p[P_CONFIG], p[P_MAX_P],\n    p[P_MAX_C] }",
            "p[P_CONFIG], kind == 1 and 0 or p[P_MAX_P],\n    p[P_MAX_C] }",
        )
    ],
    "confirm whatever the gate": [
        ("if not gate.open or gate.n ~= tonumber(args[1]) then return 0 end\n  call('HINCRBY'", "call('HINCRBY'")
    ],
}
