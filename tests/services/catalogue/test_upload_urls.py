"""A file's signed address: given to writers only, and replaced by a new one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
from hypothesis import given

from libs.contracts.catalogue_events import Stored
from libs.storage.object_store import environment_files, open_store
from libs.storage.secret_rings import SecretRing
from services.catalogue.file_routes import UploadUrls, _signature
from tests.services.catalogue.conftest import Place
from tests.support.hostile import mutated

BODY = {"filename": "a.txt", "file_type": "text/plain", "file_extension": "txt"}


async def a_file(writer: httpx.AsyncClient) -> dict[str, Any]:
    answer = await writer.post("/files", json=BODY)
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    assert (await writer.put(record["upload_url"], content=b"mine")).status_code == 204
    return record


async def renewed(writer: httpx.AsyncClient, record: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = await writer.post(f"/files/{record['key']}/upload_url", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_who_may_only_read_is_not_given_an_address_that_takes_writes(place: Place) -> None:
    async with place.client() as writer, place.anonymous() as anonymous:
        record = await a_file(writer)
        async with place.client("content:read", account=writer.headers["x-account"]) as reader:
            shown = await reader.get(f"/files/{record['key']}")
            assert shown.status_code == 200
            assert shown.json()["upload_url"] is None
            assert "signature" not in shown.text
            refused = await reader.post(f"/files/{record['key']}/upload_url")
            assert refused.status_code == 403
        assert (await writer.get(f"/files/{record['key']}")).json()["upload_url"] == record["upload_url"]
        assert (await anonymous.get(record["upload_url"])).content == b"mine"


async def test_a_renewed_address_ends_the_earlier_ones_and_keeps_the_bytes(place: Place) -> None:
    async with place.client() as writer, place.client() as stranger, place.anonymous() as anonymous:
        record = await a_file(writer)
        new = await renewed(writer, record)
        assert new["upload_url"] != record["upload_url"]
        assert new["is_scanned"] == (await writer.get(f"/files/{record['key']}")).json()["is_scanned"]
        for method in ("GET", "PUT", "DELETE"):
            assert (await anonymous.request(method, record["upload_url"], content=b"x")).status_code == 404
        assert (await anonymous.get(new["upload_url"])).content == b"mine"
        assert (await anonymous.put(new["upload_url"], content=b"new")).status_code == 204
        patched = await writer.patch(f"/files/{record['key']}", json={**new, "description": "x"})
        assert patched.status_code == 200, patched.text
        assert patched.json()["upload_url"] == new["upload_url"]
        assert "upload_id" not in patched.json()
        owned = await writer.patch(f"/files/{record['key']}", json={"upload_id": ""})
        assert owned.status_code == 422
        assert (await stranger.post(f"/files/{record['key']}/upload_url")).status_code == 404
        assert (await writer.post("/files/nothing/upload_url")).status_code == 404


async def test_an_upload_that_a_renewal_overtakes_is_refused_and_leaves_nothing(place: Place) -> None:
    async with place.client() as writer, place.anonymous() as anonymous:
        record = await a_file(writer)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"the"
            begun.set()
            await go_on.wait()
            yield b"irs"

        sending = asyncio.create_task(anonymous.put(record["upload_url"], content=slowly()))
        await begun.wait()
        new = await renewed(writer, record)
        go_on.set()
        assert (await sending).status_code == 404
        assert (await anonymous.get(new["upload_url"])).content == b"mine"
        prefix = f"{environment_files(place.environments['production'].namespace)}files/"
        assert len([name for name in await place.store.names(prefix) if f"/{record['key']}/" in name]) == 1


@given(mutated(b"1wOnBjYJOOPR3pbdBxQb6ejtyZs3bKHQhGq3hbWpTBU").map(lambda shown: shown.decode(errors="replace")))
async def test_no_other_text_is_a_file_s_signature(shown: str) -> None:
    urls = UploadUrls(SecretRing(open_store("memory://"), "upload addresses"), None, "")  # type: ignore[arg-type]
    file = Stored("f", 1, 1, 1, 0, "", "{}")
    [secret] = await urls._secrets()
    signature = _signature(secret, "account", file)
    assert await urls.admits("account", file, signature)
    assert not await urls.admits("another", file, signature)
    assert await urls.admits("account", file, shown) is (shown == signature)
