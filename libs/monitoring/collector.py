"""Collects the status: positions of the views compared with the log's end offsets and append times, and tasks."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from libs.certificates.service import Sealed, sealed_contests
from libs.concurrency.tasks import Deadline
from libs.deployment.deployment import Deployment
from libs.kafka.cancellation import call
from libs.monitoring.lag import AppendTimes, LagTracker, TimeAt, View
from libs.monitoring.quarantine import count_among, count_of, dropped
from libs.monitoring.status import (
    Answer,
    Away,
    OpenPurchase,
    OtherGeneration,
    PartitionStatus,
    ProcessStatus,
    Status,
)
from libs.storage.object_store import StorageUnavailable
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable
from libs.telemetry.redaction import redacted
from libs.views.generations.generations import Generations, PartitionGenerations, ProjectionName
from libs.views.purchases.purchase_views import Todo, Unreadable
from libs.views.votes.reply_types import PartitionState
from libs.web.server.health import CHECK_TIMEOUT_S, UNAVAILABLE
from libs.web.server.tls import public_authorities

if TYPE_CHECKING:
    from httpx import Response

SEALED_EVERY_S: Final = 30.0
READ_S: Final = 2.5
"""Seconds that a status takes at most; partitions of servers that hang get a share of it in each step."""
IN_STEP: Final = 0.5
"""Share of the remaining time that one step may take."""
NO_LOG: Final = LogUnavailable("Kafka does not answer in time", retry_after_s=1)

T = TypeVar("T")


class StatusCollector:
    """Collects statuses repeatedly: rates and stalls need the previous observation."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._reader = deployment.reader
        self._projections = deployment.projections
        self._times = {
            projection: AppendTimes(self._reader, views.topic.name)
            for projection, views in self._projections.items()
        }
        self._known_sealed: Sequence[Sealed] = ()
        self._listed = -SEALED_EVERY_S
        self._progress = LagTracker()

    async def collect(self, parts: Sequence[ProcessStatus] = (), within_s: float = READ_S) -> Status:
        """Return the status, with `parts` included, of the partitions that can be read in time.

        Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable` if there are none.
        """
        patience = _Patience(Deadline(within_s), [], [])
        reads = [self.rows(projection, patience) for projection in self._projections]
        rows, sealed = await asyncio.gather(asyncio.gather(*reads), self._sealed(patience))
        every = [row for of_one in rows for row in of_one]
        if patience.lost and not every:
            raise patience.lost[0].error
        return Status(_now(), every, parts, sealed, [*patience.away, *self._away(patience.lost)])

    def _away(self, lost: "Iterable[_Lost]") -> list[Away]:
        """Return a line for each projection and reason."""
        found: dict[tuple[ProjectionName, str], list[int]] = {}
        for projection, partition, error in lost:
            found.setdefault((projection, redacted(str(error))), []).append(partition)
        return [
            Away(f"{projection} {_numbers(partitions, self._projections[projection])}", f"away: {reason}")
            for (projection, reason), partitions in found.items()
        ]

    async def _sealed(self, patience: "_Patience") -> Sequence[Sealed]:
        """Return the sealed contests, cached for `SEALED_EVERY_S` as listing a bucket is expensive, and for as
        long as they cannot be read."""
        if time.monotonic() > self._listed + SEALED_EVERY_S:
            reading = sealed_contests(self._deployment.store, self._deployment.catalogue.views)
            try:
                self._known_sealed = await call(reading, patience.deadline.left_s(IN_STEP))
                self._listed = time.monotonic()
            except StorageUnavailable as error:
                patience.away.append(Away("object store", f"away: {redacted(str(error))}"))
            except TimeoutError:
                patience.away.append(Away("sealed contests", "away: not read in time"))
            except ViewsUnavailable:
                pass  # the partitions show which server it was
        return self._known_sealed

    async def all_rows(self, projection: ProjectionName) -> list[PartitionStatus]:
        """Return the rows of all partitions. Raises as `collect` for any that cannot be read."""
        patience = _Patience(Deadline(math.inf), [], [])
        rows = await self.rows(projection, patience)
        if patience.lost:
            raise patience.lost[0].error
        return rows

    async def rows(self, projection: ProjectionName, patience: "_Patience") -> list[PartitionStatus]:
        """Return the rows of a projection's partitions; adds those that cannot be read in time to `patience`.

        Reads ends after positions, so that no view of this log appears to be past its end, or less behind.
        """
        views = self._projections[projection]
        stored: dict[int, _Stored] = await _each(
            projection, views.topic.numbers, self._stored, patience, partial(self._silence, views)
        )
        ends: dict[int, int] = await self._ends(projection, stored, patience)
        now = _now()
        places = [
            TimeAt(partition, offset)
            for partition, end in ends.items()
            for position in [_offset(stored[partition].generations)]
            for todo in [stored[partition].todo]
            for offset in (position - 1, position, -1 if todo is None else todo.offset)
            if 0 <= offset < end
        ]
        try:
            times = await call(self._times[projection].read(places), patience.deadline.left_s())
        except (TallyError, TimeoutError) as error:
            if not _may_pass(error):
                raise
            found = error if isinstance(error, TallyError) else NO_LOG
            patience.lost.extend(_Lost(projection, partition, found) for partition in ends)
            return []
        rows = []
        for partition, end in ends.items():
            of_one, ledger, todo, (quarantined, dropped_ones) = stored[partition]
            position = _offset(of_one)
            first = times.get(TimeAt(partition, position))
            view = View(projection, partition, of_one.live.number)
            lag = self._progress.observe(view, position, now, first)
            rows.append(
                PartitionStatus(
                    projection=projection,
                    partition=partition,
                    generation=of_one.live.number,
                    position=position,
                    end=end,
                    lag_s=lag.seconds,
                    last_event=times.get(TimeAt(partition, position - 1)),
                    stalled_since=lag.stalled_since,
                    quarantined=quarantined,
                    dropped=dropped_ones,
                    schema=of_one.live.schema,
                    code_schema=of_one.schema,
                    generations=self._others(projection, partition, of_one, now),
                    processed_per_s=lag.processed_per_s,
                    oldest_open=_oldest_open(todo, times, partition, now),
                    **ledger,
                )
            )
        return rows

    def _silence(self, views: Generations, partition: int) -> ViewsUnavailable:
        """Return the error of a partition whose server does not answer: in a cluster it names the server."""
        server = self._deployment.valkey.server_of(views.base(partition))
        name = f"Valkey {server[0]}:{server[1]}" if isinstance(server, tuple) else "Valkey"
        return ViewsUnavailable(f"{name} does not answer in time", retry_after_s=1)

    async def _stored(self, projection: ProjectionName, partition: int) -> "_Stored":
        """Read a partition of the views; of another layout only its generations can be read."""
        views = self._projections[projection]
        generations = await views.read(partition)
        ledger, todo = dict[str, Any](), None
        if generations.live.schema != generations.schema:
            return _Stored(generations, ledger, todo, (0, 0))
        if projection is ProjectionName.VOTES:
            asked = time.time()
            state = await self._deployment.vote_views.state(partition)
            ledger = ledger_of(state, asked, time.time())
        if projection is ProjectionName.PURCHASES:
            with suppress(ViewsUnavailable):
                todo = next(iter(await self._deployment.purchase_views.todo(partition, -1, 1)), None)
        return _Stored(generations, ledger, todo, await self._quarantine(views, partition, generations))

    async def _ends(
        self, projection: ProjectionName, partitions: Iterable[int], patience: "_Patience"
    ) -> dict[int, int]:
        """Return the log's ends; asks for each partition alone if a broker does not answer for some of them."""
        topic, every = self._projections[projection].topic.name, list(partitions)
        with suppress(LogUnavailable, TimeoutError):
            return await call(self._reader.end_offsets(topic, every), patience.deadline.left_s(IN_STEP / 2))

        async def end(_: ProjectionName, partition: int) -> int:
            return (await self._reader.end_offsets(topic, [partition]))[partition]

        return await _each(projection, every, end, patience, lambda _: NO_LOG)

    def _others(
        self, projection: ProjectionName, partition: int, generations: PartitionGenerations, now: int
    ) -> list[OtherGeneration]:
        found = []
        for number, one in sorted(generations.others.items()):
            position = generations.offset_of(number)
            rate = self._progress.observe(View(projection, partition, number), position, now).processed_per_s
            behind = _offset(generations) - position
            since = None if one.kept_since is None else one.kept_since * 1000
            found.append(
                OtherGeneration(
                    number=number,
                    state=one.state,
                    position=position,
                    behind=behind,
                    processed_per_s=rate,
                    kept_since=since,
                    lost=one.records_lost,
                )
            )
        return found

    async def _quarantine(
        self, views: Generations, partition: int, generations: PartitionGenerations
    ) -> tuple[int, int]:
        """Return the numbers of open and of dropped records; reads the object store only if there are any."""
        live = generations.live
        rows = self._deployment.valkey, views, partition, live.number
        count = await count_of(*rows)
        if not count:
            return 0, 0
        drops = await dropped(self._deployment.store, views.topic.name, partition, live.position)
        held = await count_among(*rows, drops)
        return count - held, held


class _Stored(NamedTuple):
    """A partition of the views; `ledger` as of `ledger_of`, `quarantined`: open and dropped records."""

    generations: PartitionGenerations
    ledger: dict[str, Any]
    todo: Todo | None
    quarantined: tuple[int, int]


class _Lost(NamedTuple):
    """A partition that cannot be read."""

    projection: ProjectionName
    partition: int
    error: TallyError


class _Patience(NamedTuple):
    """The time for a status, and what cannot be read in it."""

    deadline: Deadline
    lost: list[_Lost]
    away: list[Away]


async def _each(
    projection: ProjectionName,
    partitions: Iterable[int],
    read: Callable[[ProjectionName, int], Coroutine[Any, Any, T]],
    patience: _Patience,
    silence: Callable[[int], TallyError],
) -> dict[int, T]:
    """Read partitions concurrently, within a share of the time. Adds those that fail to `patience`.

    Those that give no answer have the error `silence`.
    """

    async def one(partition: int) -> T | TallyError:
        try:
            return await call(read(projection, partition), patience.deadline.left_s(IN_STEP))
        except (TallyError, TimeoutError) as error:
            if not _may_pass(error):
                raise
            return error if isinstance(error, TallyError) else silence(partition)

    every = list(partitions)
    found = dict(zip(every, await asyncio.gather(*map(one, every)), strict=True))
    for partition, each in found.items():
        if isinstance(each, TallyError):
            patience.lost.append(_Lost(projection, partition, each))
    return {partition: each for partition, each in found.items() if not isinstance(each, TallyError)}


def _may_pass(error: TallyError | TimeoutError) -> bool:
    """Return False for an error that an operator must resolve, as another log than the views'."""
    return isinstance(error, TimeoutError) or error.retry_after_s is not None


def _numbers(partitions: Sequence[int], views: Generations) -> str:
    return "all" if len(partitions) == len(views.topic.numbers) else ", ".join(map(str, sorted(partitions)))


def ledger_of(state: PartitionState, asked: float, answered: float) -> dict[str, Any]:
    """Return the members of a `PartitionStatus` that only the votes have.

    `asked` and `answered` are this process's times (s since 1970) around the call; clocks in between match.
    """
    oldest, now = state.oldest_pending, state.now / 1_000_000
    same = "open", "incarnation", "pending", "fenced", "duplicates", "overruled"
    return {name: getattr(state, name) for name in same} | {
        "oldest_pending_s": None if oldest is None else max(0, state.now - oldest) / 1_000_000,
        "valkey_clock_off_s": now - min(max(now, asked), answered),
        "clock_ahead_s": max(0, state.clock - state.now) / 1_000_000,
    }


def _oldest_open(todo: Todo | None, times: Mapping[TimeAt, int], partition: int, now: int) -> OpenPurchase | None:
    if todo is None:
        return None
    since = times.get(TimeAt(partition, todo.offset), now)
    unreadable = todo.purchase.reason if isinstance(todo.purchase, Unreadable) else ""
    return OpenPurchase(todo.offset, max(0, now - since) / 1000, unreadable)


def _offset(generations: PartitionGenerations) -> int:
    return generations.offset_of(generations.live.number)


def _now() -> int:
    return time.time_ns() // 1_000_000


PROCESS_S: Final = CHECK_TIMEOUT_S + 1.0
"""Seconds in which a process must answer; it asks its servers for `CHECK_TIMEOUT_S` whether it is ready."""
PART_UP: Final = "tally_projector_part_up"
LOOP_STALL: Final = "tally_loop_stall_seconds"


async def failing_tasks(metrics_urls: Iterable[str]) -> list[str]:
    """Return the sorted names of projectors' failing tasks; processes that do not answer report none."""
    samples = await _samples(PART_UP, metrics_urls)
    return sorted({part for (part,), value in samples if value == 0})


async def longest_stall(metrics_urls: Iterable[str]) -> tuple[float, str]:
    """Return the longest recent turn of the processes' event loops in seconds, and the route of its request."""
    samples = await _samples(LOOP_STALL, metrics_urls)
    return max(((value, route) for (route,), value in samples), default=(0.0, "none"))


async def _samples(name: str, metrics_urls: Iterable[str]) -> list[tuple[tuple[str, ...], float]]:
    """Return a metric's label values and value in all processes that answer."""
    pages = await asyncio.gather(*map(_page, metrics_urls), return_exceptions=True)
    families = [one for page in pages if isinstance(page, str) for one in text_string_to_metric_families(page)]
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return [(tuple(sample.labels.values()), sample.value) for sample in samples]


async def ask_readiness(url: str, within_s: float = PROCESS_S) -> tuple[Answer, list[str]]:
    """Return how a process answers at its `/readyz`, and the names of what it waits for if it is not ready."""
    import httpx  # noqa: PLC0415 (delays the start)

    try:
        answer = await _got(url, within_s)
    except TimeoutError:
        return Answer.SILENT, []
    except httpx.HTTPError:
        return Answer.REFUSED, []
    if answer.is_success:
        return Answer.READY, []
    with suppress(ValueError, AttributeError):
        found = answer.json()["dependencies"].items()
        return Answer.UNREADY, [name for name, state in found if state == UNAVAILABLE]
    return Answer.UNREADY, []


async def _page(url: str) -> str:
    """Return the text at a URL, empty if it cannot be reached or is an error. Raises `TimeoutError`."""
    import httpx  # noqa: PLC0415 (delays the start)

    try:
        answer = await _got(url)
    except httpx.HTTPError:
        return ""
    return answer.text if answer.is_success else ""


async def _got(url: str, within_s: float = PROCESS_S) -> "Response":
    """Return the answer at a URL. Raises `TimeoutError` and `httpx.HTTPError`."""
    import httpx  # noqa: PLC0415 (delays the start)

    async with httpx.AsyncClient(verify=public_authorities(), timeout=2 * within_s, trust_env=False) as client:
        return await asyncio.wait_for(client.get(url), within_s)
