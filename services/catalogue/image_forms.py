"""Forms that upload an image: parsing and validation."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from starlette.datastructures import UploadFile
from starlette.requests import Request

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.base import checked
from libs.catalogue.schemas.media import Image
from libs.contracts.validation import Problem
from libs.web.errors import MalformedJson
from libs.web.form_parsing import open_form
from libs.web.request_parsing import MAX_DEPTH, parse_json

FORM: Final = "multipart/form-data"
MEMBERS: Final = frozenset(Image.model_fields)
"""Members of an image that a client may set beside its picture."""
IGNORED: Final = Image.ignored - Image.owned
"""Members of a read record that the server computes; ignored when sent back."""
TEXTS: Final = ("title", "image_text")
"""Members sent as plain text; other members are JSON text."""
MAX_TITLE: Final = 255
NOT_IN_TITLES: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Form:
    """An uploaded picture, and the members of its record."""

    file: IO[bytes]
    body: Document

    def content(self) -> bytes:
        """Return the content that identifies the request: its members and the file's SHA-256.

        Reads the whole file. The multipart boundary is excluded, as clients choose a new one for each attempt.
        """
        digest = hashlib.sha256(self.file.read())
        self.file.seek(0)
        return orjson.dumps([digest.hexdigest(), self.body], option=orjson.OPT_SORT_KEYS)


@asynccontextmanager
async def read_form(request: Request, max_bytes: int) -> AsyncIterator[Form]:
    """Parse a multipart form with the part `file`. Raises as `open_form`."""
    async with open_form(request, max_bytes, (FORM,), len(MEMBERS | IGNORED)) as form:
        parts = dict(form)
        file = parts.pop("file", None)
        body, problems = _parse_members({name: value for name, value in parts.items() if name not in IGNORED})
        if isinstance(file, UploadFile):
            yield Form(file.file, titled(file.filename or "", body, problems))
        else:
            titled("", body, [Problem("/file", "is required, as a part with a filename"), *problems])


def titled(path: str, body: Document, others: Iterable[Problem] = ()) -> Document:
    """Return the body; without a title, it gets the file's name as title.

    Raises `ValidationFailed` with all problems of the body, `others` first.
    """
    unknown = sorted(body.keys() - MEMBERS - IGNORED)
    problems = [*others, *(Problem(f"/{name}", "is not accepted with a picture") for name in unknown)]
    checked(Image, {name: value for name, value in body.items() if name not in unknown}, problems)
    name = NOT_IN_TITLES.sub("", PurePosixPath(path.replace("\\", "/")).stem)[:MAX_TITLE]
    return {"title": name} | body if name else body


def name_at(url: str) -> str:
    """Return the path of a URL, from which the file name is taken."""
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return ""


def _parse_members(members: Mapping[str, Any]) -> tuple[Document, list[Problem]]:
    """Parse the members, with exact integers; return them with the problems of those that cannot be parsed.

    Raises `PayloadTooLarge` for too many values.
    """
    body: Document = {}
    problems: list[Problem] = []
    for name, value in members.items():
        try:
            body[name] = value if name in TEXTS else parse_json(value.encode())
            if body[name] is None:
                problems.append(Problem(f"/{name}", "must be a value: leave the part out instead of null"))
        except (MalformedJson, AttributeError):
            message = f"must be JSON text, nested at most {MAX_DEPTH} levels deep"
            problems.append(Problem(f"/{name}", message))
    return body, problems
