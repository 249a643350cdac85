"""Who changes content does not thereby see, or show, counts that are hidden."""

from typing import Any

import httpx
import pytest

from tests.services.catalogue.conftest import Place
from tests.services.catalogue.image_uploads import legacy_code
from tests.support.clients.http_clients import ok

HIDDEN: dict[str, Any] = {"vote_visibility": "hidden_until_end", "result_release": "by_hand"}
LOOSENED = [
    {"contest_config": {"result_release": "at_end"}},
    {"contest_config": {"result_release": None}},
    {"contest_config": {"vote_visibility": "shown"}},
    {"contest_config": {"vote_visibility": "hidden_until_vote", "result_release": "by_hand"}},
    {"contest_config": None},
]


async def hidden_contest(owner: httpx.AsyncClient) -> str:
    created = await owner.post("/contests", json={"title": "Final", "contest_config": HIDDEN})
    assert created.status_code == 201, created.text
    return str(created.headers["location"])


@pytest.mark.parametrize("change", LOOSENED, ids=str)
async def test_writing_content_alone_does_not_show_more(
    place: Place, client: httpx.AsyncClient, change: dict[str, Any]
) -> None:
    contest = await hidden_contest(client)
    async with place.client("content:read", "content:write", account=client.headers["x-account"]) as editor:
        refused = await editor.patch(contest, json=change)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), refused.text
        assert refused.json()["permission"] == "show:control"
        assert "results:read_hidden" in refused.json()["detail"]
        assert ok(await client.get(contest))["contest_config"].items() >= HIDDEN.items()
        stricter = {"title": "Semi-final", "contest_config": {"vote_visibility": "hidden"}}
        assert (await editor.patch(contest, json=stricter)).status_code == 200


@pytest.mark.parametrize("permission", ["show:control", "results:read_hidden"])
async def test_who_directs_the_show_or_reads_hidden_counts_shows_more(
    place: Place, client: httpx.AsyncClient, permission: str
) -> None:
    contest = await hidden_contest(client)
    account = client.headers["x-account"]
    async with place.client("content:read", "content:write", permission, account=account) as editor:
        changed = await editor.patch(contest, json={"contest_config": {"result_release": "at_end"}})
        assert changed.status_code == 200, changed.text


@pytest.mark.parametrize("visibility", ["shown", "hidden_until_vote"])
async def test_the_legacy_update_shows_no_more_either(
    place: Place, client: httpx.AsyncClient, visibility: str
) -> None:
    """It does not name the release, which keeps its value."""
    contest, body = await hidden_contest(client), {"vote_visibility": visibility}
    async with place.client("content:read", "content:write", account=client.headers["x-account"]) as editor:
        headers = {
            "service-brand": client.headers["x-account"],
            "service-key": editor.headers["authorization"].removeprefix("Bearer "),
        }
        refused = await editor.post(f"/legacy{contest}", json=body, headers=headers)
        assert legacy_code(refused) == (400, "forbidden"), refused.text
        assert "show:control" in refused.json()["error"]["message"]
        written = await editor.post(f"/legacy{contest}", json={"title": "Semi-final"}, headers=headers)
        assert written.status_code == 200, written.text
    assert ok(await client.get(contest))["contest_config"].items() >= HIDDEN.items()
    allowed = await client.post(f"/legacy{contest}", json=body)
    assert (allowed.status_code, ok(allowed)["contest_config"]["vote_visibility"]) == (200, visibility)
