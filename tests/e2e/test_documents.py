"""Generated descriptions are checked for drift: TALLY_UPDATE_DOCUMENTS=1 writes them anew; look at the diff."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.operations.stack.supervisor import Supervisor
from tests.support.voting import Api

ROOT = Path(__file__).parents[2]
DOCUMENTS = {
    "/openapi.json": ROOT / "services/gateway/openapi.json",
    "/asyncapi": ROOT / "services/projector/asyncapi.json",
}


@pytest.mark.parametrize("path", DOCUMENTS)
async def test_the_committed_description_is_the_one_that_is_served(api: Api, stack: Supervisor, path: str) -> None:
    answer = await api.client.get(path)
    assert answer.status_code == 200
    served = orjson.loads(answer.text.replace(stack.stack["namespace"], "tally"))
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        options |= orjson.OPT_SORT_KEYS if path == "/asyncapi" else 0  # whose own order differs from run to run
        DOCUMENTS[path].write_bytes(orjson.dumps(served, option=options))
    assert orjson.loads(DOCUMENTS[path].read_bytes()) == served


PUBLIC = {"/public/contests/{contest_key}/results", "/media/image/{image_id}", "/dashboard/session"}
"""What is there for everybody, without a key, but for private images; and log-in, to which the key is sent."""


async def test_every_operation_says_what_it_does_how_it_fails_and_for_whom(api: Api) -> None:
    document: dict[str, Any] = (await api.client.get("/openapi.json")).json()
    groups = [tag["name"] for tag in document["tags"] if tag["description"]]
    order = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            assert operation.get("summary"), where
            (tag,) = operation["tags"]
            assert tag in groups, where
            order.append(groups.index(tag))
            assert any(status.startswith("2") for status in operation["responses"]), where
            assert "503" in operation["responses"], where
            assert (operation["security"] == []) == (path in PUBLIC), where
            if path not in PUBLIC:
                assert {"401", "503"} <= operation["responses"].keys(), where
                assert f"`{operation['x-permission']}`" in operation["description"], where
    assert order == sorted(order)


async def test_a_schema_or_answer_that_many_share_is_written_once(api: Api) -> None:
    document: dict[str, Any] = (await api.client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for content in (content for each in bodies for content in each.get("content", {}).values()):
                assert "properties" not in content["schema"], f"{method.upper()} {path}"
