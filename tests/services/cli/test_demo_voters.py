"""The demo's voters, their recorded responses, and the screen."""

import json
import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx
from rich.console import Console

from libs.client import AsyncClient
from services.cli.commands.demo.sample_contest import PARTICIPANTS, Sample
from services.cli.commands.demo.screen import LiveMetrics, Screen
from services.cli.commands.demo.voters import AcceptedResults, VoterLoad, VoterPopulation
from tests.support.eventually import eventually

KEYS = [f"p{number}" for number in range(8)]


async def voters_answered(
    answer: Callable[[httpx.Request], httpx.Response],
    until: Callable[[AcceptedResults], bool],
    settle_s: float = 60,
) -> tuple[AcceptedResults, VoterPopulation]:
    results, voters = AcceptedResults(), VoterPopulation(KEYS, 100, seed=1)
    transport = httpx.MockTransport(answer)
    retried = results.record_retry
    async with (
        AsyncClient("http://tally", "tk", patience_s=math.inf, retried=retried, transport=transport) as client,
        VoterLoad(client, "contest", voters, results, rate=200) as load,
    ):
        await eventually(lambda: until(results))
        await load.settle(settle_s)
    return results, voters


async def test_what_was_not_answered_is_sent_again_under_the_same_id() -> None:
    sent: Counter[str] = Counter()

    def answer(request: httpx.Request) -> httpx.Response:
        vote_id = json.loads(request.content)["vote_id"]
        sent[vote_id] += 1
        if sent[vote_id] == 1:
            return httpx.Response(503, json={"code": "ledger_catching_up"}, headers={"retry-after": "0"})
        if sent[vote_id] == 2:
            raise httpx.ReadError("gone")
        return httpx.Response(201, json={"vote_id": vote_id, "receipt": "r"})

    results, _ = await voters_answered(answer, lambda results: bool(results.accepted))
    assert results.accepted
    assert not results.in_doubt
    assert results.retries["ledger_catching_up"] == results.retries["no_answer"] > 0
    assert min(sent.values()) >= 3  # some are sent again by their voters, and answered at once


async def test_a_vote_without_an_answer_is_in_doubt_and_not_accepted() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json={"code": "log_unavailable"}, headers={"retry-after": "1"})

    results, voters = await voters_answered(answer, lambda results: results.retries.total() > 10, settle_s=0.1)
    assert results.in_doubt
    assert results.in_doubt.keys() <= voters.ids
    assert not results.accepted


def test_the_screen_fits_a_small_terminal() -> None:
    counts = {"count": 1_234_567, "unique_voter_count": 345_678, "anonymous_voter_count": 45_678}
    free, paid = {"source": "c-free", "count": 8}, {"source": "c-paid", "count": 1_234_559}
    of_each = counts | {"vote_sources": [free, paid]}
    totals: dict[str, Any] = {"participants": dict.fromkeys(KEYS, of_each), "total_vote_sources": [free, paid]}
    metrics = SimpleNamespace(lag=12, closed_gates=0, counts=counts | totals)
    results = AcceptedResults()
    for number, code in enumerate(("participant_limit_reached", "idempotency_key_reused", "ip_limit_reached") * 9):
        results.refusals[f"{code}{number}"] = 10_000
    results.retries.update({"log_unavailable": 12_345, "views_unavailable": 12_345, "no_answer": 12_345})
    sample = Sample("contest", dict(zip(KEYS, PARTICIPANTS, strict=True)))
    screen = Screen(sample, cast(LiveMetrics, metrics), results, "http://127.0.0.1:8080", 60)
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(screen.render(console))
    lines = captured.get().splitlines()
    assert len(lines) <= 22
    assert max(map(len, lines)) <= 80
    assert "1,234,567" in captured.get()
    assert screen.line().endswith(" voting: 1,234,567 votes, 0/s, p99 0 ms, lag 12, refused 270,000")
    assert len(screen.line()) <= 80
