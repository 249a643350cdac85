"""Uploads, replacements and deletions of files that stop halfway, and their races."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.catalogue.api_keys import ApiKeyCache
from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.media import KeptBytes, kept_bytes
from libs.contracts.catalogue_events import ApiKey
from libs.storage.object_store import Store, environment_files, open_store
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import HttpModule, build_app
from services.catalogue.file_routes import Files, UploadUrls, file_content_router
from tests.support.catalogue import Catalogue, open_catalogue

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


KEY = ApiKey("a", "k", "", ("content:write",), 0)


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


async def test_objects_lie_in_their_world_and_account(catalogue: Catalogue, files: Files, store: Store) -> None:
    """So that wiping an environment finds them, and a copy of the environment's folder has them all."""
    key = (await catalogue.create("files", "a", BODY)).key
    await files.put("a", key, chunks("1"))
    name = (await kept(files, key)).object
    assert await store.names(environment_files(catalogue.namespace)) == [
        f"{environment_files(catalogue.namespace)}files/a/{key}/{name}"
    ]


async def test_a_replacement_takes_the_old_bytes_away(catalogue: Catalogue, files: Files, tmp_path: Path) -> None:
    key = (await catalogue.create("files", "a", BODY)).key
    for word in ("one", "two", "two"):
        await files.put("a", key, chunks(word))
        assert (await text(files, key), len(objects(tmp_path))) == (word, 1)
    await files.drop("a", key)
    await files.drop("a", key)
    assert objects(tmp_path) == []
    assert kept_bytes((await files.get("a", key)).document) is None


async def test_of_many_uploads_at_once_one_holds_and_nothing_else_is_left(
    catalogue: Catalogue, files: Files, store: Store, tmp_path: Path
) -> None:
    key = (await catalogue.create("files", "a", BODY)).key
    elsewhere = Files(catalogue.namespace, catalogue.another_record_service(), store)
    await asyncio.gather(*((files, elsewhere)[n % 2].put("a", key, chunks(f"{n}" * 99_999)) for n in range(8)))
    found = await text(files, key)
    assert found == found[0] * 99_999
    assert len(objects(tmp_path)) == 1


async def test_a_record_deleted_during_an_upload_keeps_no_bytes(
    catalogue: Catalogue, files: Files, tmp_path: Path
) -> None:
    key = (await catalogue.create("files", "a", BODY)).key

    async def slowly() -> AsyncIterator[bytes]:
        yield b"1"
        await catalogue.record_service.delete(FILES, "a", key)
        yield b"2"

    with pytest.raises(NotFound):
        await files.put("a", key, slowly())
    assert objects(tmp_path) == []


async def test_what_the_log_may_have_taken_is_not_thrown_away(
    catalogue: Catalogue, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may come to name it; if it does not, a later upload takes it away."""
    key = (await catalogue.create("files", "a", BODY)).key
    await files.put("a", key, chunks("old"))
    amend = catalogue.record_service.amend

    async def doubtful(*args: object) -> None:
        raise ViewsUnavailable("may have been recorded")

    monkeypatch.setattr(catalogue.record_service, "amend", doubtful)
    with pytest.raises(ViewsUnavailable):
        await files.put("a", key, chunks("doubtful"))
    monkeypatch.setattr(catalogue.record_service, "amend", amend)
    assert len(objects(tmp_path)) == 2
    await files.put("a", key, chunks("new"))
    assert len(objects(tmp_path)) == 2
    (orphan,) = (path for path in objects(tmp_path) if path.read_text() == "doubtful")
    os.utime(orphan, (1, 1))
    await files.put("a", key, chunks("newest"))
    assert [path.read_text() for path in objects(tmp_path)] == ["newest"]


async def test_deleting_a_file_again_takes_away_what_a_crash_left(
    catalogue: Catalogue, files: Files, tmp_path: Path
) -> None:
    key = (await catalogue.create("files", "a", BODY)).key
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


async def test_a_read_that_is_overtaken_begins_again(catalogue: Catalogue, store: Store) -> None:
    files = Overtaken(catalogue.namespace, catalogue.record_service, store)
    key = (await catalogue.create("files", "a", BODY)).key
    await files.put("a", key, chunks("old"))
    urls = UploadUrls(SecretRing(store, "upload addresses"), catalogue.views, "http://files")
    shown: dict[str, Any] = {"key": key}
    await urls(KEY, "", [shown])
    router = file_content_router(
        Authenticator(ApiKeyCache(catalogue.views), Proxies()), catalogue.views, files, urls, 10
    )
    front = HttpMiddleware(build_app("files", [HttpModule(routers=[router])]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front)) as client:
        got = await client.get(shown["upload_url"])
    assert (got.status_code, got.text, got.headers["content-length"]) == (200, "newer", "5")
