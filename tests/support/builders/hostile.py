"""Hostile input: nearly valid or random bytes, and requests that carry it."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
from hypothesis import strategies as st
from starlette.types import ASGIApp

ODD: Final = (
    *(b"\0", b"\r\n", b"\xff", b"\xb2", b"\xc2\xb2", b"\xed\xa0\x80", b"\xe2\x84\x80"),
    *(b"%", b"%ff", b"%00", b"%2F"),
    *(b'"', b"'", b",", b";", b"=", b"~", b":", b"[", b"]", b"{", b"}", b"\\", b"\\ud800", b"\\u0000", b"-", b" "),
    *(b"NaN", b"1e999", b"-0", b"9" * 20, b"9" * 400, b"null", b"true", b"[]", b"{}", b"*"),
)


@st.composite
def mutated(draw: st.DrawFn, *wholes: bytes, most: int = 4) -> bytes:
    """Draw one of `wholes` after a few edits, or rarely random bytes."""
    if not wholes or draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=64))
    data = bytearray(draw(st.sampled_from(wholes)))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 8))] = draw(st.sampled_from(ODD) | st.binary(max_size=4))
    return bytes(data)


def mutated_text(*wholes: str, most: int = 4) -> st.SearchStrategy[str]:
    """Draw such input as text, as in header values or query parameters, also with lone surrogates."""
    return mutated(*(whole.encode() for whole in wholes), most=most).map(_text) | st.text(max_size=40)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def is_refusal(self) -> bool:
        """Return whether it is a documented client error, of the current or the legacy API."""
        problem = orjson.loads(self.body)
        return 400 <= self.status < 500 and ("code" in problem or "code" in problem["error"])


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes = b"",
    query: bytes = b"",
) -> Answer:
    """Return the answer of an ASGI app. Headers are passed unchecked, as servers accept more than clients can
    send.
    """
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(errors="replace"),
        "query_string": query,
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
    sent: list[Any] = []

    async def receive() -> Any:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return Answer(
        sent[0]["status"],
        {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )
