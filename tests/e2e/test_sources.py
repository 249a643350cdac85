"""External sources: reports are counted or held, as their registration says."""

import asyncio
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.retried import final_answer
from tests.support.sources import Source, a_source
from tests.support.stack_keys import client_with
from tests.support.voting import Api, code, new_id


def total_of(record: dict[str, Any], source: str) -> dict[str, Any]:
    return next(row for row in record["total_vote_sources"] if row["source"] == source)


async def test_a_count_that_goes_down_is_held_until_it_is_permitted(api: Api) -> None:
    sms = await a_source(api, "A", "B")
    await sms.report(A=9, B=9)
    lower = await sms.report("lower", A=4, B=9)
    assert [(row["mapped_id"], row["reason"], row["count"]) for row in lower.json()["held"]] == [
        ("A", "decrease", 4)
    ]
    assert await sms.counted(lower) == [9, 9]
    released = await sms.report(allow_decrease=True)
    assert (released.json()["status"], released.json()["counted"]) == ("counted", [])
    assert await sms.counted(released) == [4, 9]
    assert await sms.counted(await sms.report(B=2, allow_decrease=True)) == [4, 2]


async def test_the_same_report_answers_its_outcome_again(api: Api) -> None:
    sms = await a_source(api, "A", mode="delta")
    counts = [{"mapped_id": "A", "count": 3}, {"mapped_id": "Z", "count": 1}]
    first = await sms.send("once", counts=counts)
    await sms.report(A=10)
    spelt_out = [row | {"unique_voter_count": 0, "anonymous_voter_count": 0} for row in reversed(counts)]
    again = await sms.send("once", counts=spelt_out, allow_decrease=False, reported_at=None)
    assert (first.status_code, again.status_code) == (202, 202)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["tally-position"] == first.headers["tally-position"]
    assert (again.json()["counted"], again.json()["held"]) == (first.json()["counted"], first.json()["held"])
    assert await sms.counted() == [13, 0]


async def test_a_report_id_with_other_content_is_refused(api: Api) -> None:
    sms = await a_source(api, "A")
    await sms.report("once", A=3)
    for other in (
        {"counts": [{"mapped_id": "A", "count": 4}]},
        {"counts": [{"mapped_id": "A", "count": 3}], "allow_decrease": True},
        {"counts": [{"mapped_id": "A", "count": 3}], "reported_at": "2026-05-01T18:00:00Z"},
    ):
        assert code(await sms.send("once", **other)) == (422, "idempotency_key_reused")
    assert await sms.counted() == [3, 0]
    radio = Source(sms.contest, "radio")
    await radio.map("A")
    assert await radio.counted(await radio.report("once", A=4)) == [4, 0]


async def test_a_retired_source_takes_no_reports_and_keeps_its_counts(api: Api) -> None:
    sms = await a_source(api, "A", title="Text messages")
    reported = await sms.report("before", A=5)
    assert await sms.counted(reported) == [5, 0]
    assert (await api.client.delete(sms.path)).status_code == 204
    counts = [{"mapped_id": "A", "count": 6}]
    assert code(await sms.send(counts=counts)) == (404, "not_found")
    assert code(await sms.send("before", counts=[{"mapped_id": "A", "count": 5}])) == (404, "not_found")
    record = await sms.contest.counts()
    assert (record["count"], total_of(record, "sms")["title"]) == (5, "Text messages")
    await sms.map("A")
    assert await sms.counted(await sms.report(A=6)) == [6, 0]


async def test_reporting_needs_the_permission(api: Api, stack: Supervisor) -> None:
    sms = await a_source(api, "A")
    async with await client_with(
        stack, stack.stack["account"], "votes:write", "content:write", "operations"
    ) as client:
        for answer in (
            await client.post(f"{sms.path}/counts", json={}),
            await client.put(sms.path, json={}),
            await client.get(sms.path),
            await client.delete(sms.path),
            await client.get(f"{sms.contest.path}/vote_sources"),
        ):
            assert (code(answer), answer.json()["permission"]) == ((403, "forbidden"), "sources:write")


ROW: dict[str, Any] = {"mapped_id": "A", "count": 1}
WRONG_ROWS: dict[str, list[Any]] = {
    "mapped_id": ["", "x" * 129, "a\0b", 1],
    "count": [-1, 10**12 + 1, 1.5],
    "unique_voter_count": [-1],
    "anonymous_voter_count": [True],
    "participant_key": ["p"],
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "/report_id": [{"report_id": wrong} for wrong in (None, "", "a b", "x" * 65)],
    "/reported_at": [{"reported_at": "yesterday"}],
    "/allow_decrease": [{"allow_decrease": "yes"}],
    "/extra": [{"extra": 1}],
    "": [{"counts": []}],
    "/counts": [{"counts": None}, {"counts": {}}, {"counts": [ROW, ROW]}],
    "/counts/0": [{"counts": [ROW | {"unique_voter_count": 3, "anonymous_voter_count": 4}]}],
    **{
        f"/counts/0/{member}": [{"counts": [ROW | {member: wrong}]} for wrong in values]
        for member, values in WRONG_ROWS.items()
    },
}
WRONG["/counts"] += [{"counts": [ROW | {"mapped_id": str(number)} for number in range(251)]}]
WRONG["/counts/0/mapped_id"] += [{"counts": [{"count": 1}]}]
WRONG["/counts/0/count"] += [{"counts": [{"mapped_id": "A"}]}]
"""Changes of a report by the pointer of their refusal."""


@pytest.mark.parametrize("pointer", WRONG)
async def test_a_report_that_is_none_says_where(api: Api, pointer: str) -> None:
    path, report = "/contests/none/vote_sources/sms/counts", {"report_id": "r", "counts": [ROW]}
    for change in WRONG[pointer]:
        answer = await api.client.post(path, json=report | change)
        assert code(answer) == (422, "validation_failed"), change
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer], change


async def test_a_source_has_a_bounded_number_of_ids(api: Api) -> None:
    sms = await a_source(api, "A")
    full = [{"mapped_id": f"id {number}", "count": 10**12} for number in range(10_000)]
    reports = [sms.send(counts=full[at : at + 250]) for at in range(0, len(full), 250)]
    assert {answer.status_code for answer in await asyncio.gather(*reports)} == {202}
    assert (await sms.send(counts=full[:1])).status_code == 202
    refused = await sms.send(counts=[ROW])
    assert (code(refused), refused.json()["errors"][0]["pointer"]) == ((422, "validation_failed"), "/counts")


async def test_reports_outlive_the_projector(api: Api, stack: Supervisor) -> None:
    sms = await a_source(api, "A", mode="delta")
    sent = 0

    async def insist() -> None:
        """One report, sent until it is answered."""
        report_id, counts = new_id(), [{"mapped_id": "A", "count": 1}]
        answer = await final_answer(lambda: sms.send(report_id, counts=counts))
        assert answer.status_code == 202, answer.text

    for _ in range(2):
        await asyncio.gather(*(insist() for _ in range(5)), stack.kill("projector"))
        sent += 5
    await sms.contest.reaches(count=sent)
