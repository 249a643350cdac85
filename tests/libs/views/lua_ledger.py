"""The ledger in Valkey's functions: `VoteViews` over a synchronous connection."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from redis import Redis

from libs.contracts.log_records import Position
from libs.contracts.topics import catalogue_topic
from libs.contracts.vote_states import VoteName, VoteState
from libs.tally.admission import Selection, judge
from libs.tally.contest import DAY_US, Contest
from libs.tally.events import Event, Fence
from libs.tally.fold import PartitionTally
from libs.tally.reservations import Answer, RemovalAnswer, Request
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.views.valkey.client import Shard
from libs.views.valkey.function_libraries import libraries
from libs.views.valkey.hash_tags import key_base
from libs.views.votes.reply_types import ClosingState, PartitionState, VoterAllowance
from tests.simulation.comparison import described, described_view, differing
from tests.support.clients.vote_views import FoldInput, VoteViews

T = TypeVar("T")

BEGIN_MS: Final = 47_500 * DAY_US // 1000 - 200
"""Start of the simulated clock: shortly before a midnight that is far off; Valkey's own must not overtake it."""
APPEND_MS: Final = 10
"""Time between two records of a log."""

CONTESTS = {"contest"}
SMALL = [
    ("local OWN, SHARE = 50, 16", "local OWN, SHARE = 1, 2"),
    ("local FOLD_SECONDS = 0.001", "local FOLD_SECONDS = 0.0001"),
    ("untimed = 160", "untimed = 4"),
    ("local SHARES_READ = 16", "local SHARES_READ = 1"),
    ("local SCANNED = 32", "local SCANNED = 4"),
]
"""Changes of the functions by which few participants lie in shares, and few events are folded in several calls."""
SMALL_PREFIX = "small_"
VOTES = next(library for library in libraries() if library.name == "votes")


def load(redis: Redis, prefix: str = "", changes: Sequence[tuple[str, str]] = ()) -> None:
    """Load the functions; with a prefix to all names, an altered copy of them beside the real ones."""
    source = VOTES.source
    for old, new in changes:
        assert old in source, f"the functions have no longer {old!r}"
        source = source.replace(old, new)
    source = source.replace("name=tally_", f"name={prefix}tally_")
    redis.function_load(re.sub(r"'(votes|address)(?=[_'])", rf"'{prefix}\1", source), replace=True)


def request_of(contest: Contest, command: CastVote, *, declined: bool = False) -> Request:
    """The request of a worker that judged by `contest`; `declined`: it refuses whatever it finds."""
    judged = None if declined else judge(contest, command)
    what = command.voter, command.vote_id, command.content, command.source
    return Request(contest, *what, judged if isinstance(judged, Selection) else None)


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


class Direct:
    """A `Valkey` that answers within the call. `prefix` picks an altered copy of the functions."""

    is_cluster = False

    def __init__(self, redis: Redis, prefix: str = "") -> None:
        self._redis = redis
        self._prefix = prefix

    async def shards(self) -> list[Shard]:
        return [Shard(self, [(0, 16_383)])]

    def server_of(self, key: str) -> object:
        return self

    async def call(self, *command: Any) -> Any:
        if command[0] in ("FCALL", "FCALL_RO"):
            command = command[0], self._prefix + command[1], *command[2:]
        return self._redis.execute_command(*command)


def unload(redis: Redis, prefix: str) -> None:
    """Delete an altered copy."""
    redis.function_delete(f"{prefix}{VOTES.loaded_name}")


class LuaLedger:
    """Losing writes is restoring an older copy of the keys; the server's new run id is simulated from the other
    side, by making the stored ones those of a former run. Time is moved by the stored clock, which is ahead: the
    next moment is then the simulated one."""

    def __init__(self, redis: Redis, namespace: str, prefix: str = "") -> None:
        self._redis = redis
        self._views = VoteViews(Direct(redis, prefix), namespace, 1)
        self._base = key_base(namespace, "votes", 0, 1)
        self._gate = f"{self._base}:gate"
        self._catalogue_partition = catalogue_topic(namespace).partition_of("account")
        self._life = 0
        self._run: str | None = None
        self._now_ms = BEGIN_MS
        self._clock_is_behind = True

    def tick(self, turns: int = 1) -> None:
        self._now_ms += turns
        self._clock_is_behind = True

    def _set_clock(self) -> None:
        if self._clock_is_behind:
            stored = int(self._redis.hget(self._gate, "clock") or 0)
            self._redis.hset(self._gate, "clock", max(stored, self._now_ms * 1000 - 1))
            self._clock_is_behind = False

    def _keys(self) -> list[bytes]:
        return list(self._redis.scan_iter(f"{self._base}:*", count=10_000))

    def snapshot(self) -> dict[bytes, bytes]:
        keys = self._keys()
        with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.dump(key)
            return {key: dump for key, dump in zip(keys, pipe.execute(), strict=True) if dump is not None}

    def restart(self, snapshot: dict[bytes, bytes], clock_step_ms: int = 0) -> None:
        self.clear()
        self._life += 1
        self.tick(clock_step_ms)
        with self._redis.pipeline(transaction=True) as pipe:
            for key, dump in snapshot.items():
                pipe.restore(key, 0, dump)
            if self._gate.encode() in snapshot:
                pipe.hset(self._gate, mapping={"run": "former", "asked_run": "former"})
            pipe.execute()

    def clear(self) -> None:
        if keys := self._keys():
            self._redis.delete(*keys)

    def forget(self) -> LuaLedger:
        """Begin again, for the next schedule."""
        self.clear()
        self._life, self._run, self._now_ms, self._clock_is_behind = 0, None, BEGIN_MS, True
        return self

    def reserve(self, contest: Contest, command: CastVote, *, declined: bool = False) -> Answer:
        self._set_clock()
        return at_once(self._views.reserve(0, [request_of(contest, command, declined=declined)]))[0]

    def release(self, command: CastVote | RemoveVote, incarnation: int, *, removal: bool) -> None:
        name = VoteName(command.contest, command.voter, command.vote_id)
        at_once(self._views.release(0, name, incarnation, removal=removal))

    def remove(self, contest: Contest, command: RemoveVote) -> RemovalAnswer:
        self._set_clock()
        declined = not contest.is_vote_removal_allowed
        return at_once(self._views.remove(0, contest, command.voter, command.vote_id, declined))

    def refund(self, command: CastVote) -> RemovalAnswer:
        self._set_clock()
        return at_once(self._views.refund(0, command))

    def confirm(self, incarnation: int) -> bool:
        return at_once(self._views.confirm(0, incarnation))

    def raise_config(self, contest: str, version: int) -> None:
        at_once(self._views.raise_config(0, contest, version))

    def put_in_force(self, contest: Contest, incarnation: int) -> bool:
        return at_once(self._views.put_in_force(0, contest, incarnation))

    def need(self, fence: Fence, catalogue_end: int) -> None:
        at_once(self._views.need(0, fence, {self._catalogue_partition: catalogue_end}))

    def shut(self, incarnation: int, forget_clock: bool = False) -> Fence | None:
        fence = at_once(self._views.shut(0, incarnation, forget_clock=forget_clock))
        if fence is None:
            return None
        self._run = fence.run
        return replace(fence, run=str(self._life))

    def apply(self, start: Position, events: Sequence[Event], end: int) -> None:
        first = end - len(events)
        items = [FoldInput(self._inward(event), at, at * APPEND_MS) for at, event in enumerate(events, first)]
        at_once(self._views.apply(0, start, items, end))
        self._clock_is_behind = True  # it may have been forgotten

    def _inward(self, event: Event) -> Event:
        """A fence that an earlier run asked for is, to the server, another one's."""
        if not isinstance(event, Fence):
            return event
        return replace(event, run=self._run if event.run == str(self._life) else "former")

    def state(self) -> PartitionState:
        return replace(at_once(self._views.state(0)), now=self._now_ms * 1000)

    def lookup(self, command: CastVote | RemoveVote) -> VoteState:
        return at_once(self._views.lookup(0, command.contest, command.voter, command.vote_id))

    def allowance(self, contest: str, voter: str) -> VoterAllowance:
        self._set_clock()
        return at_once(self._views.allowance(0, contest, voter))

    def closing(self, contest: str) -> ClosingState:
        self._set_clock()
        return at_once(self._views.closing(0, contest))

    def differences(self, tally: PartitionTally) -> list[str]:
        return differing(at_once(described_view(self._views, 0, CONTESTS)), described(tally))


def folded(log: Sequence[Event]) -> PartitionTally:
    """Return the reference fold of a log."""
    tally = PartitionTally()
    for offset, event in enumerate(log):
        tally.evolve(event, offset, offset * APPEND_MS)
    return tally
