"""Hostile forms, urlencoded and multipart, of both API generations: parsed or rejected."""

from typing import Any, Final

import orjson
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.catalogue.resource_table import IMAGES
from libs.contracts.limits import JSON_BODY
from libs.legacy.bodies import FORMS, from_form, read_parameters
from libs.legacy.contests import CONTEST
from libs.legacy.images import IMAGE, MOST_FIELDS
from libs.web.door.request_parsing import open_form
from libs.web.errors import handle_errors
from libs.web.server.http_middleware import HttpMiddleware
from services.catalogue.image_routes import read_form
from tests.support.builders.hostile import Answer, ask, mutated

MAX_BYTES: Final = 10_000
BOUNDARY: Final = b"x1"
TYPE: Final = b"multipart/form-data; boundary=" + BOUNDARY


def part(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (BOUNDARY, name, more, value)


MULTIPART: Final = (
    part(b"title", b"T")
    + part(b"tags", b'["a", "b"]')
    + part(b"file", b"\x89PNG", b'; filename="a.png"\r\nContent-Type: image/png')
    + b"--x1--\r\n"
)
LEGACY: Final = part(b"title", b"T") + part(b"is_icon", b"true") + part(b"access", b"[1]") + b"--x1--\r\n"
URLENCODED: Final = b"title=T&tags=a&tags=b&settings=%7B%22a%22%3A1%7D&start=2026-05-01T18:00:00Z&published=true"
TYPES: Final = (
    TYPE,
    TYPE + b"; charset=utf-7",
    TYPE + b"; charset=idna",
    b"application/x-www-form-urlencoded",
    b"application/json",
)


async def legacy_form(request: Request) -> Response:
    return _said(CONTEST.written(await read_parameters(request, CONTEST.parameters, JSON_BODY), None))


async def legacy_image(request: Request) -> Response:
    async with open_form(request, MAX_BYTES, FORMS, MOST_FIELDS) as form:
        texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        return _said(IMAGE.written(from_form(texts, IMAGE.parameters), None))


async def current_image(request: Request) -> Response:
    async with read_form(request, MAX_BYTES) as form:
        form.content()
        return _said(IMAGES.validated(form.body))


def _said(value: Any) -> Response:
    return Response(orjson.dumps(value, default=str))


PROBE: Final = Starlette(
    routes=[
        Route("/legacy/contests", legacy_form, methods=["POST"]),
        Route("/legacy/images", legacy_image, methods=["POST"]),
        Route("/images", current_image, methods=["POST"]),
    ]
)
handle_errors(PROBE)
FRONT: Final = HttpMiddleware(PROBE)


async def sent(path: str, media_type: bytes, body: bytes) -> Answer:
    return await ask(FRONT, "POST", path, [(b"content-type", media_type)], body)


@given(
    st.sampled_from(["/legacy/contests", "/legacy/images", "/images"]),
    mutated(*TYPES, most=2),
    mutated(MULTIPART, LEGACY, URLENCODED, b'{"title": "T"}'),
)
@example("/images", TYPE + b"; charset=utf-7", part(b"+2AA-", b"x") + MULTIPART)
@example("/images", TYPE + b"; charset=punycode", MULTIPART)
@example("/images", TYPE + b"; charset=undefined", MULTIPART)
@example("/legacy/contests", TYPE + b"; charset=unicode_escape", part(b"tags", b"\\ud800") + b"--x1--\r\n")
@example("/legacy/images", TYPE + b"; charset*=raw_unicode_escape''x", part(b"title", b"\\ud800") + b"--x1--\r\n")
async def test_a_form_of_any_bytes_is_read_or_refused(path: str, media_type: bytes, body: bytes) -> None:
    answer = await sent(path, media_type, body)
    assert answer.status == 200 or answer.is_refusal(), answer


async def test_a_whole_form_is_read() -> None:
    for path, media_type, body in (
        ("/images", TYPE, MULTIPART),
        ("/legacy/images", TYPE, LEGACY),
        ("/legacy/contests", TYPES[3], URLENCODED),
    ):
        answer = await sent(path, media_type, body)
        assert answer.status == 200, answer
        assert orjson.loads(answer.body)["title"] == "T"


async def test_a_form_of_another_charset_than_utf_8_is_refused() -> None:
    assert (await sent("/images", TYPE + b'; charset="UTF-8"', MULTIPART)).status == 200
    assert (await sent("/images", TYPE + b"; charset=utf-16", MULTIPART)).status == 415
    assert (await sent("/legacy/images", TYPES[3] + b"; charset=latin-1", URLENCODED)).status == 400
