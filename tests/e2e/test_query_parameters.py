"""A query parameter that a route does not have is refused by name, in both API generations."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.support.clients.voting import Api, code
from tests.support.models.openapi import read_tracked

KEY = "x" * 24


def parameters(answer: httpx.Response) -> list[str]:
    return [error["parameter"] for error in answer.json()["errors"]]


async def test_every_operation_refuses_an_unknown_query_parameter_by_name(api: Api) -> None:
    operations = [
        (method.upper(), re.sub("{.*?}", KEY, path))
        for path, methods in read_tracked()["paths"].items()
        for method, operation in methods.items()
        if "legacy" not in operation["tags"] and (operation["security"] or path.startswith("/public"))
    ]
    assert len(operations) > 100
    for method, path in operations:
        answer = await api.client.request(method, path, params={"limt": "1", "odd name": ""}, json={})
        assert code(answer) == (422, "validation_failed"), (method, path, answer.text)
        assert parameters(answer) == ["limt", "odd name"], (method, path)
        assert "limt is not a query parameter" in answer.json()["detail"]


async def test_a_missing_key_is_reported_first(api: Api) -> None:
    answer = await api.client.get("/shops", params={"limt": "1"}, headers={"Authorization": ""})
    assert code(answer) == (401, "unauthorized")


async def test_known_parameters_are_taken_and_a_wrong_value_is_named(api: Api) -> None:
    contest = await api.contest()
    for path, query in [
        ("/shops", {"limit": "1", "tags": "a", "updated_since": "2026-05-01T18:00:00Z"}),
        (f"{contest.path}/vote_updates", {"sources": "true", "at": "2026-05-01T18:00:00Z"}),
        (f"{contest.path}/timeline", {"interval": "86400", "from": "2026-05-01T18:00:00Z"}),
        (f"/public/contests/{contest.key}/results", {"receipt": "none"}),
    ]:
        assert (await api.client.get(path, params=query)).status_code == 200
    for path, names in {
        "/shops": ("limit", "next", "updated_since"),
        "/contests": ("phase", "q"),
        "/articles": ("scheduled",),
        f"{contest.path}/participants": ("order",),
        "/keys": ("next",),
        f"{contest.path}/votes": ("limit",),
        "/operations/purchases/refunds": ("next",),
        f"{contest.path}/vote_updates": ("sources", "min_position"),
        f"{contest.path}/timeline": ("interval",),
    }.items():
        for name in names:
            assert parameters(await api.client.get(path, params={name: "?"})) == [name]


@pytest.mark.parametrize("prefix", ["", "/dev"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/articles"),
        ("GET", "/v2/conventions"),
        ("POST", "/v2/articlefeeds"),
        ("GET", f"/contests/{KEY}"),
        ("POST", "/contests"),
        ("DELETE", f"/images/{KEY}"),
    ],
)
async def test_legacy_refuses_it_in_its_own_form(
    legacy: httpx.AsyncClient, legacy_test: httpx.AsyncClient, prefix: str, method: str, path: str
) -> None:
    for client in (legacy, legacy_test):
        answer = await client.request(method, prefix + path, params={"limt": "1"})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "validation_failed"
        assert "limt is not a query parameter" in answer.json()["error"]["message"]
        known = await client.get(f"{prefix}/v2/articles", params={"scheduled": "true", "is_template": "false"})
        assert known.status_code == 200


async def test_the_media_host_answers_in_legacys_form(api: Api) -> None:
    for path, said in [
        (f"/media/image/{KEY}", "image not found"),
        (f"/media/image/{KEY}?size=huge", "size must be one of"),
        (f"/media/image/{KEY}?sice=thumb", "sice is not a query parameter"),
    ]:
        answer = await api.client.get(path)
        assert answer.status_code == 400, answer.text
        assert said in answer.json()["error"]["message"]


async def test_a_refusal_says_what_to_do(api: Api) -> None:
    for body, said in [
        ({"title": "no publish"}, "publish is not set"),
        ({"publish": "2020-01-01T00:00:00Z"}, "start is not set"),
    ]:
        made = (await api.client.post("/contests", json=body)).json()
        vote = {"participant_key": "p", "voter_id": "v"}
        refused = await api.client.post(f"/contests/{made['key']}/votes", json=vote)
        assert code(refused) == (409, "contest_not_running")
        assert said in refused.json()["detail"]
    for body, said in [
        ({"article": "nope"}, "there is no article nope; create it first, or name another"),
        ({"article": "\x00"}, "there is no article"),
    ]:
        assert said in (await api.client.post("/shops", json=body)).json()["detail"]
