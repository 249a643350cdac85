"""External sources: registered, changed and retired; reports are counted or held, as the registration says."""

import asyncio
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.retried import final_answer
from tests.support.clients.sources import Source, a_source
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, code, new_id


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_registration_from_its_making_to_its_end(api: Api) -> None:
    contest = await api.contest()
    sms = Source(contest, "sms.de_1-X")
    made = await sms.put(mapping={"A": contest.participants[0]})
    assert (made.status_code, made.headers["location"]) == (201, sms.path)
    shown = made.json()
    assert {name: shown[name] for name in shown if name not in ("created", "updated")} == {
        "source": "sms.de_1-X",
        "contest_key": contest.key,
        "title": "sms.de_1-X",
        "is_in_total": True,
        "mode": "cumulative",
        "mapping": {"A": contest.participants[0]},
    }
    read = await api.client.get(sms.path + "/")
    assert (read.status_code, read.json(), read.headers["etag"]) == (200, shown, made.headers["etag"])
    changed = await sms.put(title="Text messages", is_in_total=False, mode="delta")
    assert changed.status_code == 200
    assert changed.json() == shown | {
        "title": "Text messages",
        "is_in_total": False,
        "mode": "delta",
        "mapping": {},
        "updated": changed.json()["updated"],
    }
    assert changed.json()["updated"] > shown["updated"]
    assert (await api.client.delete(sms.path)).status_code == 204
    assert code(await api.client.get(sms.path)) == (404, "not_found")
    assert code(await api.client.delete(sms.path)) == (404, "not_found")


async def test_a_retired_source_is_registered_again_and_keeps_its_time_of_creation(api: Api) -> None:
    sms = await a_source(api, "A", title="Old")
    made = (await api.client.get(sms.path)).json()
    await api.client.delete(sms.path)
    again = await sms.put()
    assert (again.status_code, again.json()["title"], again.json()["mapping"]) == (201, "sms", {})
    assert again.json()["created"] == made["created"]


@pytest.mark.clustered
async def test_conditions_guard_reads_and_writes(api: Api) -> None:
    sms = await a_source(api, "A")
    tag = (await api.client.get(sms.path)).headers["etag"]
    assert (await api.client.get(sms.path, headers={"If-None-Match": tag})).status_code == 304
    assert (await api.client.put(sms.path, json={"title": "New"}, headers={"If-Match": tag})).status_code == 200
    for late in (
        await api.client.put(sms.path, json={"title": "Late"}, headers={"If-Match": tag}),
        await api.client.delete(sms.path, headers={"If-Match": tag}),
        await api.client.put(sms.path + "2", json={}, headers={"If-Match": "*"}),
    ):
        assert code(late) == (412, "version_conflict")
    assert (await api.client.get(sms.path)).json()["title"] == "New"
    await api.client.delete(sms.path)
    created = await api.client.put(sms.path, json={}, headers={"If-Match": "*"})
    assert code(created) == (412, "version_conflict")


@pytest.mark.secured
@pytest.mark.clustered
async def test_of_many_registrations_at_once_one_is_the_first(api: Api) -> None:
    contest = await api.contest()
    answers = await asyncio.gather(*(Source(contest, "sms").put(title=str(number)) for number in range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] * 11 + [201]
    listed = (await api.client.get(f"{contest.path}/vote_sources")).json()["data"]
    assert len(listed) == 1


async def test_other_names_are_refused(api: Api) -> None:
    contest = await api.contest(participants=0)
    for name in ("c-free", "c-paid", "c-", "c-sms", "a b", "x" * 65, "é", "a:b", "a~b", "%2E", "%2e%2e"):
        answer = await Source(contest, name).put()
        assert code(answer) == (422, "validation_failed"), name
        assert "c-" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"extra": 1}, "/extra"),
        ({"retired": True}, "/retired"),
        ({"title": 1}, "/title"),
        ({"is_in_total": "yes"}, "/is_in_total"),
        ({"mode": "sum"}, "/mode"),
        ({"mapping": []}, "/mapping"),
        ({"mapping": {"A": 1}}, "/mapping/A"),
        ({"mapping": {"A/B~": "stranger"}}, "/mapping/A~1B~0"),
    ],
)
async def test_a_registration_that_is_none_says_where(api: Api, body: dict[str, Any], pointer: str) -> None:
    answer = await Source(await api.contest(participants=0), "sms").put(**body)
    assert code(answer) == (422, "validation_failed")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_an_id_that_is_none_is_refused(api: Api) -> None:
    contest = await api.contest(participants=1)
    for mapped in ("", "x" * 129, "a\nb"):
        answer = await Source(contest, "sms").put(mapping={mapped: contest.participants[0]})
        assert code(answer) == (422, "validation_failed")
        assert [error["pointer"] for error in answer.json()["errors"]] == [f"/mapping/{mapped}"]


@pytest.mark.secured
@pytest.mark.clustered
async def test_sources_go_with_their_contest(api: Api) -> None:
    sms = await a_source(api, "A")
    assert (await api.client.delete(sms.contest.path)).status_code == 204
    assert code(await api.client.get(sms.path)) == (404, "not_found")
    assert code(await sms.put()) == (404, "not_found")


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
