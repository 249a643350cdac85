"""A caller's URL is fetched from public addresses only."""

import asyncio
import io
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from libs.media.allowed_addresses import NotFetched, parse_allowed
from libs.media.public_address_fetcher import AWAY, Fetcher, Resolve, resolve
from tests.support.servers.web_host import WebHost, open_host

MAX_BYTES = 1_000


@pytest.fixture
async def host() -> AsyncIterator[WebHost]:
    async with open_host() as host:
        yield host


@asynccontextmanager
async def fetcher(
    allow: str = "127.0.0.1",
    lookup: Resolve = resolve,
    timeout_s: float = 5,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Fetcher]:
    found = Fetcher(parse_allowed(allow), MAX_BYTES, timeout_s, lookup, verify)
    yield found
    await found.close()


async def fetched(url: str, fetcher: Fetcher) -> bytes:
    into = io.BytesIO()
    await fetcher.fetch(url, into)
    return into.getvalue()


async def refused(url: str, fetcher: Fetcher) -> str:
    with pytest.raises(NotFetched) as refusal:
        await fetched(url, fetcher)
    return str(refusal.value)


def names(**addresses: list[str]) -> Resolve:
    """A resolver of these hosts, "_" for "."."""

    async def lookup(host: str, port: int) -> list[str]:
        return addresses[host.replace(".", "_")]

    return lookup


async def test_what_is_there_is_fetched_also_over_redirects(host: WebHost) -> None:
    host.respond("/a", b"picture")
    host.respond("/b", status="302 Found", Location="/a")
    host.respond("/c", status="301 Moved", Location=host.url("/b"))
    async with fetcher() as one:
        for path in ("/a", "/b", "/c"):
            assert await fetched(host.url(path), one) == b"picture"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "picture.png",
        "//example.com/x",
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "gopher://127.0.0.1/x",
        "http://",
        "http:///x",
        "http://user:secret@127.0.0.1/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1\\@example.com/",
        "http://127.0.0.1:99999/",
        "http://0177.0.0.1/",
        "http://[::1/",
        "http://127.0.0.1/\r\nX: y",
        "http://127.0.0.1/" + "x" * 3_000,
        "http://xn--\u00fc.example/",
        "http://xn--zzzzzz99999999.example/",
        "http://xn--/",
        "http://\u0378.example/",
    ],
)
async def test_other_kinds_of_urls_are_refused(url: str, host: WebHost) -> None:
    async with fetcher() as one:
        assert (await refused(url, one)).startswith("must ")


@pytest.mark.parametrize(
    "where",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:7f00:1]",
        "169.254.169.254",
        "metadata.google.internal",
        "nowhere.invalid",
        "a" * 70 + ".example",
    ],
)
async def test_no_host_within_is_reached_and_none_differs_from_another(where: str, host: WebHost) -> None:
    host.respond("/a", b"secret")
    async with fetcher(allow="") as one:
        assert await refused(f"http://{where}:{host.port}/a", one) == AWAY
    assert host.heads == []


async def test_a_closed_port_a_silent_one_and_a_broken_answer_read_alike(host: WebHost) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    host.answers |= {"/silent": silent, "/dripping": dripping, "/broken": b"SSH-2.0-OpenSSH\r\n"}
    host.answers["/short"] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        async with fetcher(timeout_s=0.3) as one:
            for url in (closed, *map(host.url, host.answers)):
                assert await refused(url, one) == AWAY, url


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://169.254.169.254/latest/meta-data/", AWAY),
        ("http://[::ffff:169.254.169.254]/", AWAY),
        ("http://inside.example/", AWAY),
        ("http://10.0.0.1:8080/", AWAY),
        ("//10.0.0.1/", AWAY),
        ("ftp://127.0.0.1/", "must be an http or https URL"),
        ("file:///etc/passwd", "must be an http or https URL"),
        ("http://127.0.0.1:70000/", "must be an http or https URL"),
        ("http://u:p@127.0.0.1/", "must not have a user name or password"),
    ],
)
async def test_a_redirect_leads_nowhere_that_the_url_itself_may_not(
    target: str, message: str, host: WebHost
) -> None:
    url = host.respond("/a", status="302 Found", Location=target)
    lookup = names(inside_example=["192.168.0.7"])

    async def either(name: str, port: int) -> list[str]:
        return await (lookup if name.endswith("example") else resolve)(name, port)

    async with fetcher(lookup=either) as one:
        assert await refused(url, one) == message


async def test_redirects_come_to_an_end(host: WebHost) -> None:
    url = host.respond("/a", status="302 Found", Location="/a")
    async with fetcher() as one:
        assert "more than 5 times" in await refused(url, one)
    assert len(host.heads) == 6


@pytest.mark.parametrize("private", ["10.0.0.1", "127.0.0.1", "::1", "fe80::1", "::ffff:10.0.0.1"])
async def test_a_name_with_any_address_within_is_refused(private: str, host: WebHost) -> None:
    for found in (["8.8.8.8", private], [private, "8.8.8.8"]):
        async with fetcher(allow="", lookup=names(two_example=found), timeout_s=1) as one:
            assert await refused(f"http://two.example:{host.port}/", one) == AWAY
    assert host.heads == []


async def test_the_name_is_looked_up_once_and_the_connection_goes_to_what_was_found(host: WebHost) -> None:
    host.respond("/a", b"picture")
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebinding(name: str, port: int) -> list[str]:
        return answers.pop(0)

    async with fetcher(lookup=rebinding) as one:
        assert await fetched(host.url("/a", "rebinding.example"), one) == b"picture"
    assert answers == [["10.0.0.1"]]
    assert f"\r\nHost: rebinding.example:{host.port}\r\n" in host.heads[0]


async def test_too_much_is_not_taken(host: WebHost) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    host.answers["/endless"] = endless
    async with fetcher() as one:
        assert await fetched(host.respond("/most", b"x" * MAX_BYTES), one) == b"x" * MAX_BYTES
        assert "1000 bytes" in await refused(host.respond("/more", b"x" * (MAX_BYTES + 1)), one)
        assert "1000 bytes" in await refused(host.url("/endless"), one)
    assert sent < 50_000_000


async def test_what_is_packed_stays_so_and_no_cookie_is_sent_back(host: WebHost) -> None:
    packed = b"not really packed"
    url = host.respond("/a", packed, **{"Content-Encoding": "gzip", "Set-Cookie": "who=me; Path=/"})
    async with fetcher() as one:
        assert [await fetched(url, one) for _ in range(2)] == [packed] * 2
    assert "Accept-Encoding: identity" in host.heads[0]
    assert not any("Cookie" in head for head in host.heads)


async def test_the_environments_proxies_are_not_used(host: WebHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", host.url(""))
    async with fetcher(allow="", lookup=names(one_example=["10.0.0.1"])) as one:
        assert await refused("http://one.example/", one) == AWAY
    assert host.heads == []


async def test_a_certificate_is_checked_against_the_name_of_the_url() -> None:
    authority = trustme.CA()
    trusted, context = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(trusted)
    authority.issue_cert("pictures.example").configure_cert(context)
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)
    lookup = names(pictures_example=["127.0.0.1"], other_example=["127.0.0.1"])
    async with open_host(context) as host, fetcher(lookup=lookup, verify=trusted) as one:
        host.respond("/a", b"picture")
        assert await fetched(host.url("/a", "pictures.example", "https"), one) == b"picture"
        assert await refused(host.url("/a", "other.example", "https"), one) == AWAY
    assert asked == ["pictures.example", "other.example"]
