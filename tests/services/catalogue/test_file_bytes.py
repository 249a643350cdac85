"""Files' bytes: uploads, replacements and deletions that stop halfway or race, and the signed address."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given

from libs.catalogue.api_keys import ApiKeyCache
from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.media import KeptBytes, kept_bytes
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.storage.object_store import Store, environment_files, open_store
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import HttpModule, build_app
from services.catalogue.file_routes import Files, UploadUrls, _signature, file_content_router
from tests.services.catalogue.conftest import Place
from tests.support.builders.catalogue import Catalogue, open_catalogue
from tests.support.builders.hostile import mutated

BODY = {"filename": "a.txt", "file_type": "text/plain", "file_extension": "txt"}


@pytest.fixture
async def catalogue(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[Catalogue]:
    async with open_catalogue(kafka, valkey_address, namespace) as catalogue, catalogue.folding():
        yield catalogue


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


@pytest.fixture
def files(catalogue: Catalogue, store: Store) -> Files:
    return Files(catalogue.namespace, catalogue.record_service, store)


@pytest.fixture
async def key(catalogue: Catalogue) -> str:
    """Of a file without bytes."""
    return (await catalogue.create("files", "a", BODY)).key


async def chunks(*texts: str) -> AsyncIterator[bytes]:
    for text in texts:
        yield text.encode()


async def kept(files: Files, key: str) -> KeptBytes:
    found = kept_bytes((await files.get("a", key)).document)
    assert found is not None
    return found


async def text(files: Files, key: str) -> str:
    it = await kept(files, key)
    found = await files.read("a", key, it.object, 0, it.size)
    assert found is not None
    return b"".join([bytes(chunk) async for chunk in found]).decode()


def objects(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*") if path.is_file()]


async def test_objects_lie_in_their_world_and_account(
    catalogue: Catalogue, files: Files, store: Store, key: str
) -> None:
    """So that wiping an environment finds them, and a copy of the environment's folder has them all."""
    await files.put("a", key, chunks("1"))
    world, name = environment_files(catalogue.namespace), (await kept(files, key)).object
    assert await store.names(world) == [f"{world}files/a/{key}/{name}"]


async def test_a_replacement_takes_the_old_bytes_away(files: Files, tmp_path: Path, key: str) -> None:
    for word in ("one", "two", "two"):
        await files.put("a", key, chunks(word))
        assert (await text(files, key), len(objects(tmp_path))) == (word, 1)
    await files.drop("a", key)
    await files.drop("a", key)
    assert objects(tmp_path) == []
    assert kept_bytes((await files.get("a", key)).document) is None


async def test_of_many_uploads_at_once_one_holds_and_nothing_else_is_left(
    catalogue: Catalogue, files: Files, store: Store, tmp_path: Path, key: str
) -> None:
    elsewhere = Files(catalogue.namespace, catalogue.another_record_service(), store)
    await asyncio.gather(*((files, elsewhere)[n % 2].put("a", key, chunks(f"{n}" * 99_999)) for n in range(8)))
    found = await text(files, key)
    assert found == found[0] * 99_999
    assert len(objects(tmp_path)) == 1


async def test_a_record_deleted_during_an_upload_keeps_no_bytes(
    catalogue: Catalogue, files: Files, tmp_path: Path, key: str
) -> None:

    async def slowly() -> AsyncIterator[bytes]:
        yield b"1"
        await catalogue.record_service.delete(FILES, "a", key)
        yield b"2"

    with pytest.raises(NotFound):
        await files.put("a", key, slowly())
    assert objects(tmp_path) == []


async def test_what_the_log_may_have_taken_is_not_thrown_away(
    catalogue: Catalogue, files: Files, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may come to name it; if it does not, a later upload takes it away."""
    await files.put("a", key, chunks("old"))

    async def doubtful(*args: object) -> None:
        raise ViewsUnavailable("may have been recorded")

    with monkeypatch.context() as doubt:
        doubt.setattr(catalogue.record_service, "amend", doubtful)
        with pytest.raises(ViewsUnavailable):
            await files.put("a", key, chunks("doubtful"))
    assert len(objects(tmp_path)) == 2
    await files.put("a", key, chunks("new"))
    assert len(objects(tmp_path)) == 2
    (orphan,) = (path for path in objects(tmp_path) if path.read_text() == "doubtful")
    os.utime(orphan, (1, 1))
    await files.put("a", key, chunks("newest"))
    assert [path.read_text() for path in objects(tmp_path)] == ["newest"]


async def test_deleting_a_file_again_takes_away_what_a_crash_left(
    catalogue: Catalogue, files: Files, tmp_path: Path, key: str
) -> None:
    await files.put("a", key, chunks("1"))
    await catalogue.record_service.delete(FILES, "a", key)
    assert len(objects(tmp_path)) == 1
    with pytest.raises(NotFound):
        await files.delete("a", key, None)
    assert objects(tmp_path) == []
    for strange in ("..", "a/../..", "é", ""):
        with pytest.raises(NotFound):
            await files.delete("a", strange, None)


class Overtaken(Files):
    """Another client replaces the bytes after the record was read."""

    async def read(self, account: str, key: str, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        if (await kept(self, key)).size == 3:
            await self.put(account, key, chunks("newer"))
        return await super().read(account, key, name, start, end)


async def test_a_read_that_is_overtaken_begins_again(catalogue: Catalogue, store: Store, key: str) -> None:
    files = Overtaken(catalogue.namespace, catalogue.record_service, store)
    await files.put("a", key, chunks("old"))
    urls = UploadUrls(SecretRing(store, "upload addresses"), catalogue.views, "http://files")
    shown: dict[str, Any] = {"key": key}
    await urls(ApiKey("a", "k", "", ("content:write",), 0), "", [shown])
    auth = Authenticator(ApiKeyCache(catalogue.views), Proxies())
    router = file_content_router(auth, catalogue.views, files, urls, 10)
    front = HttpMiddleware(build_app("files", [HttpModule(routers=[router])]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front)) as client:
        got = await client.get(shown["upload_url"])
    assert (got.status_code, got.text, got.headers["content-length"]) == (200, "newer", "5")


@pytest.fixture
async def record(client: httpx.AsyncClient) -> dict[str, Any]:
    """A file's record as its writer reads it, with bytes."""
    answer = await client.post("/files", json=BODY)
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    assert (await client.put(record["upload_url"], content=b"mine")).status_code == 204
    return record


async def renewed(client: httpx.AsyncClient, record: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(f"/files/{record['key']}/upload_url")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_who_may_only_read_is_not_given_an_address_that_takes_writes(
    place: Place, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, record: dict[str, Any]
) -> None:
    path = f"/files/{record['key']}"
    async with place.client("content:read", account=client.headers["x-account"]) as reader:
        shown = await reader.get(path)
        assert (shown.status_code, shown.json()["upload_url"]) == (200, None)
        assert "signature" not in shown.text
        assert (await reader.post(f"{path}/upload_url")).status_code == 403
    assert (await client.get(path)).json()["upload_url"] == record["upload_url"]
    assert (await anonymous.get(record["upload_url"])).content == b"mine"


async def test_a_renewed_address_ends_the_earlier_ones_and_keeps_the_bytes(
    place: Place, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, record: dict[str, Any]
) -> None:
    path, new = f"/files/{record['key']}", await renewed(client, record)
    assert new["upload_url"] != record["upload_url"]
    assert new["is_scanned"] == (await client.get(path)).json()["is_scanned"]
    for method in ("GET", "PUT", "DELETE"):
        assert (await anonymous.request(method, record["upload_url"], content=b"x")).status_code == 404
    assert (await anonymous.get(new["upload_url"])).content == b"mine"
    assert (await anonymous.put(new["upload_url"], content=b"new")).status_code == 204
    patched = await client.patch(path, json={**new, "description": "x"})
    assert patched.status_code == 200, patched.text
    assert patched.json()["upload_url"] == new["upload_url"]
    assert "upload_id" not in patched.json()
    assert (await client.patch(path, json={"upload_id": ""})).status_code == 422
    async with place.client() as stranger:
        assert (await stranger.post(f"{path}/upload_url")).status_code == 404
    assert (await client.post("/files/nothing/upload_url")).status_code == 404


async def test_an_upload_that_a_renewal_overtakes_is_refused_and_leaves_nothing(
    place: Place, client: httpx.AsyncClient, anonymous: httpx.AsyncClient, record: dict[str, Any]
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"the"
        begun.set()
        await go_on.wait()
        yield b"irs"

    sending = asyncio.create_task(anonymous.put(record["upload_url"], content=slowly()))
    await begun.wait()
    new = await renewed(client, record)
    go_on.set()
    assert (await sending).status_code == 404
    assert (await anonymous.get(new["upload_url"])).content == b"mine"
    assert len(await place.names(record["key"], of="files")) == 1


@given(mutated(b"1wOnBjYJOOPR3pbdBxQb6ejtyZs3bKHQhGq3hbWpTBU").map(lambda shown: shown.decode(errors="replace")))
async def test_no_other_text_is_a_file_s_signature(shown: str) -> None:
    urls = UploadUrls(SecretRing(open_store("memory://"), "upload addresses"), None, "")  # type: ignore[arg-type]
    file = Stored("f", 1, 1, 1, 0, "", "{}")
    [secret] = await urls._secrets()
    signature = _signature(secret, "account", file)
    assert await urls.admits("account", file, signature)
    assert not await urls.admits("another", file, signature)
    assert await urls.admits("account", file, shown) is (shown == signature)
