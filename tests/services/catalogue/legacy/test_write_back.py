"""A client that writes back a record unchanged loses nothing that the other API generation wrote."""

from typing import Any

import pytest

from tests.services.catalogue.conftest import Place
from tests.support.pictures import picture

SPAN = {"start": "2030-01-01T00:00:00Z", "end": "2030-01-02T00:00:00Z"}
HELPS = {"search_helps": [{"term": "rock", "icon_id": "{image}"}]}
FIELDS = [
    {"field_id": "one", "contest_key": "{contest}", "participant_keys": ["{participant}"], "survey_key": "own"},
    {"field_id": "two", "image_id": "{image}", "video_id": "v", "web_data_key": "w", "simple_web_data": [1]},
]
STORIES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "/contests",
        "/contests",
        {
            "contest_type": "ordering",
            "publish": "2020-01-01T00:00:00Z",
            "image": {"key": "{image}"},
            "share": {"a": 1},
            "contest_config": SPAN | {"share_top_x": 3, "paid": {"is_anonymous": True, "max_contest": 7}},
        },
    ),
    (
        "/articles",
        "/v2/articles",
        {
            "image": {"key": "{image}"},
            "content": [1],
            "thumbnail": [2],
            "style": {"alpha": 1, "text_color": "#fff"},
            "fields": FIELDS,
            "draft": {"title": "Next", "image_id": "{image}", "fields": FIELDS},
        },
    ),
    (
        "/conventions",
        "/v2/conventions",
        SPAN | HELPS | {"search_help": [1], "venues": [{"id": "v", "style": {"alpha": 1}}]},
    ),
    ("/conventions", "/v2/conventions", {"title": "When is not known yet"}),
    (
        "/conventions/{convention}/timeslots",
        "/v2/timeslots",
        SPAN | HELPS | {"image": "{image}", "article": "{article}"},
    ),
    (
        "/feeds",
        "/v2/articlefeeds",
        {"header": {"a": 1}, "header_article_key": "{article}", "topic_key": "t", "style": {"alpha": 1}},
    ),
]


@pytest.mark.parametrize(("path", "legacy", "body"), STORIES, ids=[each[1] for each in STORIES])
async def test_what_legacy_reads_and_writes_back_is_what_it_was(
    place: Place, path: str, legacy: str, body: dict[str, Any]
) -> None:
    async with place.legacy() as client:
        named: dict[str, str] = {}

        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: filled(each) for name, each in value.items()}
            if isinstance(value, list):
                return [filled(each) for each in value]
            return value.format(**named) if isinstance(value, str) else value

        async def made(name: str, path: str, body: Any) -> dict[str, Any]:
            answer = await client.post(filled(path), json=filled(body))
            assert answer.status_code == 201, answer.text
            record: dict[str, Any] = answer.json()
            named[name] = record["key"]
            return record

        uploaded = await client.post("/images", files={"file": ("a.png", picture(), "image/png")})
        named["image"] = uploaded.json()["key"]
        await made("article", "/articles", {})
        await made("convention", "/conventions", {})
        await made("contest", "/contests", {})
        await made("participant", "/contests/{contest}/participants", {})
        await made("survey", "/surveys/own", {})
        before = await made("own", path, {"title": "Own"} | body)
        where = f"/legacy{legacy}/{before['key']}"
        written = await client.post(where, json=(await client.get(where)).json())
        assert written.status_code == 200, written.text
        current = f"/{path.rpartition('/')[2]}/{before['key']}"
        after = (await client.get(current)).json()
        assert after | {"updated": None} == before | {"updated": None}
