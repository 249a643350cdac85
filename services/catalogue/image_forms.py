"""What comes with a picture: a form, or where to fetch it."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from libs.catalogue.resource import Document
from libs.catalogue.schemas.base import checked
from libs.catalogue.schemas.media import Image
from libs.contracts.validation import Problem, ValidationFailed
from libs.web.auth import headers_of
from libs.web.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType
from libs.web.requests import MAX_DEPTH, MAX_JSON_BYTES, declared_length, parse_json, require_utf8

FORM: Final = "multipart/form-data"
MEMBERS: Final = frozenset(Image.model_fields)
"""What may be said of the image beside its picture."""
IGNORED: Final = Image.ignored - Image.owned
"""What a record that was read says, and the server knows better."""
TEXTS: Final = ("title", "image_text")
"""These as they stand, the others as JSON text."""
MAX_TITLE: Final = 255
NOT_IN_TITLES: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Form:
    """A picture as it came in, and the members that are to be its record's."""

    file: IO[bytes]
    body: Document

    def content(self) -> bytes:
        """What tells one request from another; takes as long as the file does. The boundary has no part in it."""
        digest = hashlib.sha256(self.file.read())
        self.file.seek(0)
        return orjson.dumps([digest.hexdigest(), self.body], option=orjson.OPT_SORT_KEYS)


@asynccontextmanager
async def open_form(request: Request, max_bytes: int, kinds: Sequence[str], most: int) -> AsyncIterator[FormData]:
    """A form of one of these media types, with one file and so many fields at `most`.

    The file lies in a temporary one meanwhile where it is large. Raises `PayloadTooLarge` as soon as that is
    certain, `UnsupportedMediaType`, and `ValidationFailed`.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in kinds:
        raise UnsupportedMediaType(f"Send {' or '.join(kinds)}, not {given or 'nothing'}.")
    require_utf8(headers_of(request.scope))
    try:
        form = await _limited(request, max_bytes + MAX_JSON_BYTES).form(
            max_files=1, max_fields=most, max_part_size=MAX_JSON_BYTES
        )
    except HTTPException as error:
        raise ValidationFailed([Problem("", str(error.detail))]) from None
    try:
        for part in form.values():
            if isinstance(part, UploadFile) and (part.size or 0) > max_bytes:
                raise _too_large(max_bytes)
        yield form
    finally:
        await form.close()


@asynccontextmanager
async def read_form(request: Request, max_bytes: int) -> AsyncIterator[Form]:
    """A multipart form with the part `file`. Raises as `open_form`."""
    async with open_form(request, max_bytes, (FORM,), len(MEMBERS | IGNORED)) as form:
        parts = dict(form)
        file = parts.pop("file", None)
        body, problems = _parsed({name: value for name, value in parts.items() if name not in IGNORED})
        if isinstance(file, UploadFile):
            yield Form(file.file, titled(file.filename or "", body, problems))
        else:
            titled("", body, [Problem("/file", "must be there, as a part with a filename"), *problems])


def titled(path: str, body: Document, others: Iterable[Problem] = ()) -> Document:
    """The body, with the name of the file as the title where it has none.

    Raises `ValidationFailed` with all faults of the body, `others` first.
    """
    unknown = sorted(body.keys() - MEMBERS - IGNORED)
    problems = [*others, *(Problem(f"/{name}", "is not taken with a picture") for name in unknown)]
    checked(Image, {name: value for name, value in body.items() if name not in unknown}, problems)
    name = NOT_IN_TITLES.sub("", PurePosixPath(path.replace("\\", "/")).stem)[:MAX_TITLE]
    return {"title": name} | body if name else body


def name_at(url: str) -> str:
    """The path of a URL, as a file's."""
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return ""


def _parsed(said: Mapping[str, Any]) -> tuple[Document, list[Problem]]:
    """The members that can be read, with exact integers, and the faults of the others.

    Raises `PayloadTooLarge` for too many values.
    """
    body: Document = {}
    problems: list[Problem] = []
    for name, value in said.items():
        try:
            body[name] = value if name in TEXTS else parse_json(value.encode())
        except (MalformedJson, AttributeError):
            message = f"must be JSON text, nested at most {MAX_DEPTH} levels deep"
            problems.append(Problem(f"/{name}", message))
    return body, problems


def _limited(request: Request, max_bytes: int) -> Request:
    """The request, whose body breaks off with `PayloadTooLarge` behind so many bytes."""
    if (declared_length(headers_of(request.scope)) or 0) > max_bytes:
        raise _too_large(max_bytes)
    size = 0

    async def receive() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise _too_large(max_bytes)
        return message

    return Request(request.scope, receive)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The picture may have {max_bytes:,} bytes at most.", max_bytes=max_bytes)
