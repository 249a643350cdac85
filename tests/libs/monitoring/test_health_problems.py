"""Problems: clocks that differ, purchases that stay unprocessed, and processes that fail, end or cannot serve."""

import asyncio
import json
from dataclasses import replace

import pytest

from libs.contracts.log_records import Position
from libs.local_stack.ports import free_ports
from libs.monitoring.collector import LOOP_STALL, PART_UP, ask_readiness, failing_tasks, ledger_of, longest_stall
from libs.monitoring.health_problems import problems_of
from libs.monitoring.status import Answer, Away, OpenPurchase, PartitionStatus, ProcessEnds, ProcessStatus, Status
from libs.views.generations.generations import ProjectionName
from libs.views.votes.reply_types import PartitionState
from tests.libs.monitoring.partition_rows import a_partition
from tests.support.servers.web_host import open_host

NOW_S = 1_790_000_000
SECOND = 1_000_000
STATE = PartitionState(Position("log", 1), True, 1, NOW_S * SECOND, 1, 0, None, 0, 0, 0, 0, NOW_S * SECOND)
VALKEYS = "Valkey's clock is {} this machine's"
STAMPED = "votes are stamped 90 s ahead of Valkey's clock, which stepped back"
WAITS = "a purchase at offset 7 is neither cast nor refused for {} s"


def problems(row: PartitionStatus) -> list[str]:
    return [problem.detail for problem in problems_of(Status(NOW_S * 1000, [row], (), ()))]


@pytest.mark.parametrize(
    ("asked", "answered", "ahead_s", "said"),
    [
        (-3600, -3600, 0, [VALKEYS.format("3,600 s ahead of")]),
        (3600, 3600, 0, [VALKEYS.format("3,600 s behind")]),
        (0, 0, 90, [STAMPED]),
        (90, 90, 90, [f"{VALKEYS.format('90 s behind')}, {STAMPED}"]),
        (0, 0, 1, []),
        (-30, 30, 0, []),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
def test_a_clock_that_is_off_is_named_with_the_difference(
    asked: float, answered: float, ahead_s: int, said: list[str]
) -> None:
    """By this process's clock around the call, as seconds after Valkey's: a minute of waiting proves nothing."""
    state = replace(STATE, clock=STATE.now + ahead_s * SECOND)
    ledger = ledger_of(state, NOW_S + asked, NOW_S + answered)
    assert problems(a_partition(ProjectionName.VOTES, **ledger)) == said


@pytest.mark.parametrize(
    ("oldest", "said"),
    [
        (None, []),
        (OpenPurchase(7, 59, ""), []),
        (OpenPurchase(7, 61, ""), [WAITS.format(61)]),
        (OpenPurchase(7, 1, "no event"), [f"{WAITS.format(1)}, it cannot be read: no event"]),
    ],
)
def test_the_oldest_open_purchase_is_named(oldest: OpenPurchase | None, said: list[str]) -> None:
    assert problems(a_partition(ProjectionName.PURCHASES, oldest_open=oldest)) == said


METRICS = f'{PART_UP}{{part="votes"}} 1\n{PART_UP}{{part="purchases"}} 0\n'.encode()


async def test_an_error_in_place_of_metrics_is_not_read_as_metrics() -> None:
    async with open_host() as host:
        working = host.respond("/metrics", METRICS)
        failed = host.respond("/failed", b"Internal Server Error", "500 Internal Server Error")
        assert await failing_tasks([failed]) == []
        assert await failing_tasks([failed, working]) == ["purchases"]


async def test_a_process_whose_loop_stood_still_is_a_problem_with_the_route() -> None:
    page = f'{LOOP_STALL}{{route="none"}} 0.2\n{LOOP_STALL}{{route="/contests"}} 2.31\n'
    async with open_host() as host:
        seconds, route = await longest_stall([host.respond("/metrics", page.encode())])
    part = ProcessStatus("gateway", 1, alive=True, stall_s=seconds, stalled_in=route)
    (problem,) = problems_of(Status(NOW_S * 1000, [], [part], ()))
    assert (problem.kind, problem.where) == ("loop", "gateway")
    assert problem.detail == "kept all requests waiting for 2.3 s, by one to /contests"
    assert problems_of(Status(NOW_S * 1000, [], [replace(part, stall_s=0.9)], ())) == []


GATEWAY = ProcessStatus("gateway", 1, alive=True)
UNREADY = "is not ready: "


async def test_a_process_that_lives_and_does_not_serve_is_asked_why() -> None:
    dependencies = json.dumps({"ready": False, "dependencies": {"log": "ready", "views": "unavailable"}}).encode()
    unavailable = "503 Service Unavailable"

    async def never(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async with open_host() as host:
        host.answers["/silent"] = never
        answers = [
            await ask_readiness(url, within_s)
            for url, within_s in (
                (host.respond("/ready", b"{}"), 60),
                (host.respond("/unready", dependencies, unavailable), 60),
                (host.respond("/stopping", b"stopping", unavailable), 60),
                (f"http://127.0.0.1:{free_ports(1)[0]}/readyz", 60),
                (host.url("/silent"), 0.2),
            )
        ]
    assert answers == [
        (Answer.READY, []),
        (Answer.UNREADY, ["views"]),
        (Answer.UNREADY, []),
        (Answer.REFUSED, []),
        (Answer.SILENT, []),
    ]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (GATEWAY, []),
        (
            replace(GATEWAY, answer=Answer.UNREADY, waits_for=["log", "views"]),
            ["is not ready: waits for log, views"],
        ),
        (replace(GATEWAY, answer=Answer.UNREADY), [f"{UNREADY}it is stopping"]),
        (replace(GATEWAY, answer=Answer.REFUSED), ["accepts no connections: it is starting, or could not start"]),
        (replace(GATEWAY, answer=Answer.SILENT), ["does not answer"]),
        (
            replace(GATEWAY, alive=False, ends=ProcessEnds(3, NOW_S * 1000, "by SIGKILL")),
            ["has ended at 2026-09-21T14:13:20.000000Z (by SIGKILL)"],
        ),
    ],
)
def test_a_process_that_does_not_serve_is_a_problem(part: ProcessStatus, said: list[str]) -> None:
    problems = problems_of(Status(NOW_S * 1000, [], [part], ()))
    assert [problem.detail for problem in problems] == [f"process 1 {text}" for text in said]


def test_what_explains_others_comes_first_and_they_are_marked() -> None:
    gateway = replace(GATEWAY, answer=Answer.UNREADY, waits_for=["log"])
    kafka = ProcessStatus("kafka", 2, alive=False)
    away = [Away("Kafka 127.0.0.1:9092", "away: does not answer"), Away("Valkey 127.0.0.1:6379", "away: refused")]
    paused = a_partition(ProjectionName.VOTES, open=False)
    off = a_partition(ProjectionName.VOTES, open=True, valkey_clock_off_s=3600.0)
    found = problems_of(Status(NOW_S * 1000, [paused, off], [gateway, kafka], (), away))
    assert [(problem.kind, problem.where.split()[0], problem.follows) for problem in found] == [
        ("part", "kafka", False),
        ("away", "Valkey", False),
        ("clock", "votes", False),
        ("away", "Kafka", True),
        ("part", "gateway", True),
        ("gate", "votes", True),
    ]
    assert not any(problem.follows for problem in problems_of(Status(NOW_S * 1000, [paused], [gateway], ())))
