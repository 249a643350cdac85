"""`tally status`: the log's own ends against the views' positions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner

from services.operations.__main__ import app
from services.operations.standing import parts_of, read_status
from tests.support.builders import a_cast
from tests.support.folded_log import FoldedLog, folded_log


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedLog]:
    pids = {"gateway": os.getpid(), "projector": 2**22}
    async with folded_log(kafka, valkey_address, namespace, pids=pids) as log:
        yield log


async def test_lag_is_what_the_log_has_and_the_view_has_not(log: FoldedLog) -> None:
    await log.append([a_cast(), a_cast(), a_cast(incarnation=3), b"poison"])
    await log.fold()
    await log.append([a_cast(vote_id="more"), a_cast(vote_id="yet more")])
    status = await read_status(log.stack)
    first, second = status.votes
    assert (first.position, first.end, first.lag) == (5, 7, 2)
    assert (first.fenced, first.duplicates, first.quarantined, first.overruled) == (1, 1, 1, 0)
    assert not first.open
    assert (second.position, second.end, second.lag) == (0, 1, 1)
    totals = status.as_json()["totals"]
    assert (totals["lag"], totals["catalogue_lag"], totals["shut"]) == (3, 8, 2)
    assert {part.name: part.alive for part in status.parts} == {"gateway": True, "projector": False}


def test_a_process_that_is_gone_is_not_alive() -> None:
    (part,) = parts_of({"projector": 2**22})
    assert not part.alive


@pytest.mark.parametrize("command", ["status", "verify", "count --contest c", "log --contest c"])
def test_without_a_stack_it_says_how_to_start_one(
    command: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TALLY_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("TALLY_VALKEY_URL", raising=False)
    result = CliRunner().invoke(app, [*command.split(), "--data-dir", str(tmp_path)])
    assert result.exit_code == 3
    assert "tally up" in result.stderr
