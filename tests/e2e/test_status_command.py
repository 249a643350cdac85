"""`tally status` of a healthy service."""

from functools import partial
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.voting import Api
from tests.support.eventually import eventually


@pytest.mark.secured
async def test_a_service_that_keeps_up_has_no_problem_and_its_sealed_contests_are_named(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest()
    await contest.vote(0)
    await contest.end(final=False)
    await tally_json(stack, "seal", contest.key, "--execute")

    async def is_well() -> dict[str, Any]:
        found: dict[str, Any] = await tally_json(stack, "status")
        assert found["problems"] == []
        assert [one["closing"] for one in found["sealed"] if one["contest"] == contest.key] == [1]
        return found

    found = await eventually(is_well)
    assert {part["name"] for part in found["parts"] if part["alive"]} >= {"gateway", "projector"}
    votes = found["totals"]["votes"]
    assert (votes["shut"], votes["stalled"]) == (0, 0)
    assert votes["position"] > stack.stack["partitions"]

    async def names_it() -> bool:
        return contest.key in (await tally(stack, "status", "--all")).stdout

    await eventually(names_it)  # on a busy machine a server may be slow to answer


@pytest.mark.secured
async def test_operations_status_says_the_same_over_http_with_what_readyz_says(
    api: Api, stack: Supervisor
) -> None:
    async def is_well() -> dict[str, Any]:
        answer = await api.client.get("/operations/status")
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        assert found["problems"] == []
        return found

    found = await eventually(is_well)
    assert found["dependencies"] == (await api.client.get("/readyz")).json()["dependencies"]
    output = await eventually(partial(tally_json, stack, "status"))
    assert found.keys() - output.keys() == {"now", "version", "dependencies", "command_options"}
    assert {fold: len(rows) for fold, rows in found["projections"].items()} == {
        "votes": stack.stack["partitions"],
        "purchases": stack.stack["partitions"],
        "catalogue": 4,
        "test": 4,
    }
