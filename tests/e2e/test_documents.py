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
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        DOCUMENTS[path].write_bytes(orjson.dumps(served, option=options))
    assert orjson.loads(DOCUMENTS[path].read_bytes()) == served


async def test_every_operation_says_what_it_does_and_how_it_fails(api: Api) -> None:
    document: dict[str, Any] = (await api.client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            assert operation.get("summary"), where
            assert operation.get("tags"), where
            assert any(status.startswith("2") for status in operation["responses"]), where
