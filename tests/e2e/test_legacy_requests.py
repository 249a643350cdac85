"""The recorded requests of the legacy API, on the running service, in both environments.

With `/dev` and a slash at the end in one of them; the long profile and the shortest story have four spellings.
"""

import re
from typing import Any, Final

import httpx
import pytest

from libs.catalogue.api_keys import PERMISSIONS
from libs.contracts import topics
from libs.local_stack.supervisor import Supervisor
from tests.legacy_requests.request_file import Story, stories
from tests.support.run_profile import is_long
from tests.support.servers.deployments import issue_key

STORIES: Final = stories()
SHORTEST: Final = "brands"
SPELLINGS: Final = (("/legacy", ""), ("/legacy-test/dev", "/"), ("/legacy/dev", ""), ("/legacy-test", "/"))
SHOWN: Final = [
    (story, *spelling)
    for story in STORIES
    for spelling in (SPELLINGS if is_long() or story == SHORTEST else SPELLINGS[:2])
]


async def brand(stack: Supervisor, namespace: str, name: str) -> dict[str, str]:
    """The headers of a key with all permissions of the brand."""
    addresses = stack.stack
    issued = await issue_key(addresses["kafka"], addresses["valkey"], namespace, name, PERMISSIONS)
    return {"service-brand": name, "service-key": issued.api_key}


@pytest.mark.parametrize(("story", "base", "slash"), SHOWN, ids=[story + base for story, base, _ in SHOWN])
async def test_what_was_recorded_comes_back(
    anonymous: httpx.AsyncClient, stack: Supervisor, story: str, base: str, slash: str
) -> None:
    namespace: str = stack.stack["namespace"]
    namespace = topics.legacy_test_namespace(namespace) if base.startswith("/legacy-test") else namespace
    names = {name: f"{story}-{name}{base.replace('/', '-')}" for name in ("brand", "other")}
    owner, other = [await brand(stack, namespace, name) for name in names.values()]
    keys = {
        "owner": owner,
        "other": other,
        "anonymous": {},
        "wrong": owner | {"service-key": other["service-key"]},
        "current": {"Authorization": f"Bearer {owner['service-key']}"},
    }
    run = Story(anonymous, base, slash, keys, dict(names))
    for line in STORIES[story]:
        for _ in range(line.recorded.get("times", 1)):
            await run.line(line)


async def test_every_legacy_operation_was_recorded(anonymous: httpx.AsyncClient) -> None:
    document: dict[str, Any] = (await anonymous.get("/openapi.json")).json()
    operations = {
        (method.upper(), path.removeprefix("/legacy").removeprefix("/dev"))
        for path, methods in document["paths"].items()
        if path.startswith("/legacy/")
        for method in methods
    }
    recorded = [line.recorded for lines in STORIES.values() for line in lines if line.recorded["status"] < 300]
    asked = [(line["method"], line["path"].partition("?")[0]) for line in recorded if not line.get("current")]
    missing = {
        (method, path)
        for method, path in operations
        if not any(verb == method and _is_at(path, where) for verb, where in asked)
    }
    assert not missing


def _is_at(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\\?{[^}]+\\?}", "[^/]+", template), path) is not None
