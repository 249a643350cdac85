"""Signatures from before and after a rotation stay valid after an import."""

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.pseudonyms import receipt
from libs.storage.object_store import Store
from libs.storage.secret_rings import AHEAD_S, SecretRing, rotate
from libs.web.door.sessions import COOKIE, Sessions
from services.catalogue.file_routes import WRITE, UploadUrls
from services.query.public_results import is_genuine
from tests.libs.backup.filled_deployment import Site

SESSIONS, RECEIPTS, UPLOADS = "sessions", "receipts", "upload addresses"
FILE = Stored("f", 1, 0, 0, 0, "", "{}")


class Files:
    """Views with one file."""

    async def get(self, *_: str) -> Stored:
        return FILE


class Signed(NamedTuple):
    """One of each kind; the receipt is of a vote accepted at `at`."""

    session: str
    receipt: str
    upload: str
    at: int


def uploads(store: Store) -> UploadUrls:
    views: Any = Files()
    return UploadUrls(SecretRing(store, "upload addresses"), views, "")


def sessions(store: Store) -> Sessions:
    return Sessions(SecretRing(store, SESSIONS))


async def receipts(store: Store) -> SecretRing:
    ring = SecretRing(store, RECEIPTS)
    await ring.load()
    return ring


async def sign(store: Store, at: int) -> Signed:
    files = [{"key": FILE.key}]
    await uploads(store)(ApiKey("a1", "k", "", (WRITE,), 0), "", files)
    return Signed(
        await sessions(store).issue("k"),
        receipt((await receipts(store)).at(at), "final", "voter", "id"),
        files[0]["upload_url"].partition("=")[2],
        at,
    )


async def test_signatures_of_all_secrets_of_a_ring_hold_after_an_import(
    growing: Site, target: Site, tmp_path: Path
) -> None:
    now = time.time_ns() // 1000
    signed = [await sign(growing.store, now - 9 * AHEAD_S * 1_000_000)]
    for ago in (6, 3):
        began = now - ago * AHEAD_S * 1_000_000
        for purpose in (SESSIONS, RECEIPTS, UPLOADS):
            await rotate(growing.store, purpose, began)
        signed.append(await sign(growing.store, began + AHEAD_S * 1_000_000))
    assert all(len(set(kind)) == 3 for kind in zip(*signed, strict=True)), "by a secret each"
    await growing.export(tmp_path / "out")
    await target.import_from(tmp_path / "out", "--execute")
    there, admits = sessions(target.store), partial(is_genuine, await receipts(target.store))
    for each in signed:
        assert await there.key_id(f"{COOKIE}={each.session}") == "k"
        assert await admits("final", each.receipt)
        assert receipt((await receipts(target.store)).at(each.at), "final", "voter", "id") == each.receipt
        assert await uploads(target.store).admits("a1", FILE, each.upload)
    assert not await admits("other", signed[0].receipt)
    assert (await sign(target.store, now)).upload == signed[-1].upload
