"""External sources: registered, changed, retired."""

import asyncio
from typing import Any

import pytest

from tests.support.sources import Source, a_source
from tests.support.voting import Api, code


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
