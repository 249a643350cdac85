"""Files: described first, then uploaded to the signed address, and read there."""

import asyncio
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from libs.local_stack.supervisor import Supervisor
from libs.storage.object_store import environment_files
from tests.support.builders.pictures import picture
from tests.support.clients.retried import final_answer
from tests.support.clients.stack_keys import new_key
from tests.support.clients.voting import Api, code
from tests.support.eventually import eventually

MIB = 1 << 20
BODY = {"filename": "Füße.txt", "file_type": "text/plain", "file_extension": "txt"}


async def file(api: Api, data: bytes | None = None, **members: Any) -> dict[str, Any]:
    """A new file's record as it was answered, with `data` sent to it."""
    answer = await api.client.post("/files", json=BODY | members)
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    if data is not None:
        sent = await api.client.put(record["upload_url"], content=data, headers={"authorization": ""})
        assert sent.status_code == 204, sent.text
    return record


def unsigned(record: dict[str, Any]) -> str:
    url: str = record["upload_url"]
    return url.partition("?")[0]


async def scanned(api: Api, record: dict[str, Any]) -> bool:
    return (await api.client.get(f"/files/{record['key']}")).json()["is_scanned"]


def objects(stack: Supervisor, record: dict[str, Any]) -> list[Path]:
    """Everything that the object store holds of a file, halves too."""
    below = Path(stack.data_dir, "objects", environment_files(stack.stack["namespace"]), "files")
    return [path for path in below.rglob(f"{record['key']}/*") if path.is_file()]


async def test_every_answer_says_where_the_bytes_are_handled(api: Api, stack: Supervisor) -> None:
    headers = {"Idempotency-Key": os.urandom(8).hex()}
    answers = [
        await api.client.post("/files", json=BODY, headers=headers),
        await api.client.post("/files", json=BODY, headers=headers),
    ]
    record = answers[0].json()
    where = f"/files/{record['key']}"
    answers += [await api.client.get(where), await api.client.patch(where, json={"description": "x"})]
    urls = {answer.json()["upload_url"] for answer in answers}
    assert len(urls) == 1
    url = httpx.URL(urls.pop())
    assert str(url).startswith(f"{stack.stack['base_url']}{where}/content?signature=")
    assert len(url.params["signature"]) == 43
    assert [answer.json()["is_scanned"] for answer in answers] == [False] * 4
    tag = answers[3].headers["etag"]
    assert (await api.client.get(where, headers={"If-None-Match": tag})).status_code == 304
    sent_back = await api.client.patch(where, json=answers[3].json(), headers={"If-Match": tag})
    assert sent_back.status_code == 200, sent_back.text
    assert sent_back.json() | {"updated": ""} == answers[3].json() | {"updated": ""}


@pytest.mark.secured
async def test_bytes_come_back_as_they_were_sent_under_their_name(api: Api, anonymous: httpx.AsyncClient) -> None:
    data = "Füße\n".encode() * 100_000
    record = await file(api, data, file_type="text/plain; charset=utf-8")
    assert record["file_type"] == "text/plain; charset=utf-8"
    url = record["upload_url"]
    got = await anonymous.get(url)
    assert (got.status_code, got.content) == (200, data)
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    assert got.headers["content-length"] == str(len(data))
    assert (
        got.headers["content-disposition"]
        == "attachment; filename=\"F__e.txt\"; filename*=UTF-8''F%C3%BC%C3%9Fe.txt"
    )
    assert got.headers["cache-control"] == "private, no-cache"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    assert got.headers["referrer-policy"] == "no-referrer"
    head = await anonymous.head(url)
    assert (head.status_code, head.content) == (200, b"")
    for answer in (head, got):
        for different in ("date", "x-request-id", "ratelimit"):
            answer.headers.pop(different, None)
    assert head.headers == got.headers
    assert not await scanned(api, record)  # this deployment has no scanner


async def test_parts_and_conditions(api: Api, anonymous: httpx.AsyncClient) -> None:
    data = bytes(range(256)) * 4096
    url = (await file(api, data, file_type="application/octet-stream"))["upload_url"]
    tag = (await anonymous.get(url)).headers["etag"]

    async def get(**headers: str) -> httpx.Response:
        return await anonymous.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})

    part = await get(range="bytes=1000-1999")
    assert (part.status_code, part.content) == (206, data[1000:2000])
    assert part.headers["content-range"] == f"bytes 1000-1999/{len(data)}"
    assert part.headers["content-length"] == "1000"
    assert (await get(range="bytes=5-", if_range=tag)).content == data[5:]
    whole = await get(range="bytes=5-", if_range='"other"')
    assert (whole.status_code, whole.content) == (200, data)
    refused = await get(range=f"bytes={len(data)}-")
    assert code(refused) == (416, "range_not_satisfiable")
    assert refused.headers["content-range"] == f"bytes */{len(data)}"
    unchanged = await get(if_none_match=f"W/{tag}", range="bytes=0-1")
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)


async def test_before_and_after_there_are_no_bytes(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    record = await file(api)
    url = record["upload_url"]
    missing = await anonymous.get(url)
    assert code(missing) == (404, "not_found")
    assert "upload_url" in missing.json()["detail"]
    assert (await anonymous.put(url, content=b"x")).status_code == 204
    for _ in range(2):
        assert (await anonymous.delete(url)).status_code == 204
        assert code(await anonymous.get(url)) == (404, "not_found")
        assert not await scanned(api, record)
    assert objects(stack, record) == []
    assert (await api.client.get(f"/files/{record['key']}")).json()["upload_url"] == url


@pytest.mark.secured
async def test_deleting_the_record_takes_the_bytes_and_the_address(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    record = await file(api, b"x")
    where = f"/files/{record['key']}"
    stale = {"If-Match": '"0"'}
    assert code(await api.client.delete(where, headers=stale)) == (412, "version_conflict")
    assert (await anonymous.get(record["upload_url"])).content == b"x"
    assert (await api.client.delete(where)).status_code == 204
    assert objects(stack, record) == []
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        assert (await anonymous.request(method, record["upload_url"])).status_code == 404
    assert code(await api.client.delete(where)) == (404, "not_found")


async def test_an_address_with_any_one_letter_changed_opens_nothing(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    record = await file(api, b"x")
    url, path = record["upload_url"], f"/files/{record['key']}"
    letters = [at for at in range(url.index(path) + len("/files/"), len(url)) if url[at] not in "/?&="]
    assert len(letters) > 60
    for at in (*letters, url.index("=")):
        changed = url[:at] + ("a" if url[at] != "a" else "b") + url[at + 1 :]
        assert code(await anonymous.get(changed)) == (404, "not_found"), changed
    for method in ("PUT", "DELETE"):
        answer = await anonymous.request(method, url.replace("signature", "signaturf"))
        assert code(answer) == (404, "not_found")
    assert (await anonymous.get(url)).content == b"x"


@pytest.mark.secured
async def test_private_bytes_need_the_address_or_a_key_that_may(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    record = await file(api, b"x")
    url = unsigned(record)
    assert code(await anonymous.get(url)) == (401, "unauthorized")
    assert code(await anonymous.get("/files/nothing/content")) == (401, "unauthorized")
    both = "content:read", "content:write"
    keys = *[await new_key(stack, one) for one in both], await new_key(stack, *both, account="stranger")
    reader, writer, stranger = ({"Authorization": f"Bearer {key.api_key}"} for key in keys)
    assert (await anonymous.get(url, headers=reader)).content == b"x"
    assert code(await anonymous.get(url, headers=writer)) == (403, "forbidden")
    assert code(await anonymous.get(url, headers=stranger)) == (404, "not_found")
    assert code(await anonymous.put(url, content=b"y")) == (401, "unauthorized")
    assert code(await anonymous.put(url, content=b"y", headers=reader)) == (403, "forbidden")
    assert code(await anonymous.put(url, content=b"y", headers=stranger)) == (404, "not_found")
    assert code(await anonymous.delete(url, headers=stranger)) == (404, "not_found")
    assert (await anonymous.put(url, content=b"y", headers=writer)).status_code == 204
    assert (await anonymous.get(record["upload_url"])).content == b"y"


async def test_public_bytes_are_for_everybody_as_long_as_they_are_public(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    record = await file(api, b"x", access={"access": "public"})
    where, url = f"/files/{record['key']}", unsigned(record)
    got = await anonymous.get(url)
    assert (got.content, got.headers["cache-control"]) == (b"x", "no-cache")
    assert code(await anonymous.put(url, content=b"y")) == (401, "unauthorized")
    changed = (await api.client.patch(where, json={"access": {"access": "private"}})).json()
    assert changed["access"]["updated"] > record["access"]["updated"]
    assert code(await anonymous.get(url)) == (401, "unauthorized")
    assert code(await api.client.patch(where, json={"access": {"access": "secret"}})) == (422, "validation_failed")
    await api.client.patch(where, json={"access": {"access": "public"}})
    assert (await anonymous.get(url)).status_code == 200


async def test_bytes_that_are_not_what_they_are_said_to_be_are_not_for_everybody(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    record = await file(api, b"<script>alert(1)</script>", file_type="image/png", access={"access": "public"})
    assert code(await anonymous.get(unsigned(record))) == (401, "unauthorized")
    assert (await anonymous.get(record["upload_url"])).status_code == 200
    png = picture("png")
    await anonymous.put(record["upload_url"], content=png)
    assert (await anonymous.get(unsigned(record))).content == png
    where = f"/files/{record['key']}"
    await api.client.patch(where, json={"file_type": "text/html"})
    assert code(await anonymous.get(unsigned(record))) == (401, "unauthorized")


async def test_a_type_that_is_no_header_is_refused(api: Api) -> None:
    for wrong in ("text", "text/", "te xt/plain", "text/plain; charset", "tëxt/plain", "a/b\r\nx: y"):
        answer = await api.client.post("/files", json=BODY | {"file_type": wrong})
        assert (code(answer), answer.json()["errors"][0]["pointer"]) == ((422, "validation_failed"), "/file_type")


async def test_only_whole_plain_bytes_are_taken(api: Api, anonymous: httpx.AsyncClient) -> None:
    url = (await file(api, b"old"))["upload_url"]
    packed = await anonymous.put(url, content=b"x", headers={"content-encoding": "gzip"})
    assert code(packed) == (415, "unsupported_media_type")
    part = await anonymous.put(url, content=b"x", headers={"content-range": "bytes 0-0/5"})
    assert code(part) == (422, "validation_failed")
    assert (await anonymous.get(url)).content == b"old"


async def test_large_files_pass_through_in_little_memory(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    record = await file(api, b"x", file_type="application/octet-stream")
    gateway = psutil.Process(stack.pids["gateway"])
    before = most = gateway.memory_info().rss
    piece = os.urandom(MIB)

    async def pieces(number: int) -> AsyncIterator[bytes]:
        nonlocal most
        for _ in range(number):
            most = max(most, gateway.memory_info().rss)
            yield piece

    assert (await anonymous.put(record["upload_url"], content=pieces(90))).status_code == 204
    found = sha256()
    async with anonymous.stream("GET", record["upload_url"]) as got:
        async for chunk in got.aiter_raw():
            most = max(most, gateway.memory_info().rss)
            found.update(chunk)
    assert found.digest() == sha256(piece * 90).digest()
    assert most - before < 45 * MIB

    too_large = await anonymous.put(record["upload_url"], content=pieces(101))
    assert code(too_large) == (413, "payload_too_large")
    url = httpx.URL(record["upload_url"])
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (url.raw_path, 101 * MIB))
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    assert [path.stat().st_size for path in objects(stack, record)] == [90 * MIB]


async def test_who_reads_while_bytes_are_replaced_gets_old_or_new_ones_whole(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    sides = [bytes([n]) * (3 * MIB + n) for n in range(4)]
    record = await file(api, sides[0], file_type="application/octet-stream")
    stop = asyncio.Event()
    seen: set[int] = set()

    async def read() -> None:
        while not stop.is_set():
            got = await anonymous.get(record["upload_url"])
            assert got.status_code == 200, got.text
            assert got.content in sides
            assert got.headers["content-length"] == str(len(got.content))
            seen.add(got.content[0])

    readers = [asyncio.create_task(read()) for _ in range(3)]
    try:
        for n in (1, 2, 3, 0, 1, 2, 3):
            assert (await anonymous.put(record["upload_url"], content=sides[n])).status_code == 204
        await eventually(lambda: len(seen) > 1)
    finally:
        stop.set()
        await asyncio.gather(*readers)
    assert len(objects(stack, record)) == 1


async def test_an_upload_that_the_gateway_did_not_survive_never_was(
    api: Api, anonymous: httpx.AsyncClient, stack: Supervisor
) -> None:
    """The old bytes stay, and nothing of the new ones does."""
    record = await file(api, b"old", file_type="application/octet-stream")
    url, piece = record["upload_url"], bytes(6 * MIB)

    async def pieces() -> AsyncIterator[bytes]:
        yield piece
        yield piece
        await eventually(lambda: len(objects(stack, record)) == 2)
        await stack.kill("gateway")
        yield piece

    with pytest.raises(httpx.TransportError):
        await anonymous.put(url, content=pieces())

    async def is_back() -> bool:
        try:
            answer = await anonymous.get(url)
        except httpx.TransportError:
            return False
        return (answer.status_code, answer.content) == (200, b"old")

    await eventually(is_back)
    (half,) = (path for path in objects(stack, record) if path.stat().st_size > 3)
    os.utime(half, (1, 1))  # as though an hour had passed
    assert (await final_answer(lambda: anonymous.put(url, content=b"new"))).status_code == 204
    assert [path.read_bytes() for path in objects(stack, record)] == [b"new"]
    again = await asyncio.gather(*(final_answer(lambda: anonymous.put(url, content=piece)) for _ in range(3)))
    assert [answer.status_code for answer in again] == [204] * 3
    assert (await anonymous.get(url)).content == piece
