"""Schemas of files and images, whose bytes are in the object store, and addresses of pictures."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field
from pydantic.json_schema import JsonSchemaValue

from libs.catalogue.schemas.base import CustomData, Description, Members, Record, ServerTime, Tags, Title
from libs.contracts.limits import DESCRIPTION
from libs.contracts.validation import explained

Name = Annotated[str, Field(min_length=1, max_length=255)]
NAME = "[A-Za-z0-9!#$&^_.+-]+"
MediaType = Annotated[
    str,
    Field(
        pattern=explained(
            rf'^{NAME}/{NAME}( ?; ?{NAME}=({NAME}|"[ !#-\[\]-~]*"))*$',
            "must be a media type, such as text/plain or text/plain; charset=utf-8",
        ),
        max_length=255,
        examples=["text/plain; charset=utf-8"],
    ),
]
Readers = Annotated[
    Literal["private", "public"], Field(description="Read access to the bytes: `private` or `public`.")
]


class Access(Members):
    ignored: ClassVar[frozenset[str]] = frozenset()

    access: Readers = "private"
    updated: ServerTime = Field(None, description="Time of the last change of `access`.")


class PublicAccess(Access):
    access: Readers = "public"


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """Metadata of a file's uploaded bytes, stored in the record's `bytes`.

    `object` names the object in the object store; `fits`: the content matches `type`; `scanned`: a malware scanner
    passed the bytes.
    """

    object: str
    size: int
    sha256: str
    type: str
    fits: bool
    scanned: bool

    def stored(self) -> dict[str, Any]:
        return asdict(self)


def kept_bytes(document: dict[str, Any]) -> KeptBytes | None:
    """Return the metadata of a file's bytes; None before the upload and after their deletion."""
    kept = document.get("bytes")
    return None if kept is None else KeptBytes(**kept)


def is_scanned(document: dict[str, Any]) -> bool:
    """Return whether a file has bytes that a malware scanner passed."""
    kept = kept_bytes(document)
    return kept is not None and kept.scanned


def fits_type(document: dict[str, Any]) -> bool:
    """Return whether a file has bytes that match the record's current `file_type`."""
    kept = kept_bytes(document)
    return kept is not None and kept.fits and kept.type == document["file_type"]


def upload_id(document: dict[str, Any]) -> str:
    """Return the id that a file's upload URL signs with its key; a new id invalidates all earlier URLs."""
    found: str = document.get("upload_id", "")
    return found


SIZES: Final = {"thumb": 150, "default": 800, "large": 1600}
"""Maximum length of each rendition's longer side, in pixels."""


class File(Record):
    """A file. The server also stores `bytes` (`KeptBytes`) and `upload_id` (see `upload_id()`)."""

    owned: ClassVar[frozenset[str]] = frozenset({"bytes", "upload_id"})
    computed_members: ClassVar[Mapping[str, JsonSchemaValue]] = {
        "is_scanned": {
            "type": "boolean",
            "description": "A malware scanner passed the bytes; it rejects malware. False in deployments without "
            "a scanner.",
        },
        "upload_url": {
            "type": ["string", "null"],
            "description": "URL to PUT, GET and DELETE the bytes without an API key: keep it secret. Valid until "
            "it is renewed or the record is deleted. Null for API keys without `content:write`.",
        },
    }
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | computed_members.keys()

    filename: Name = Field(description="The file's name.")
    file_extension: Annotated[str, Field(max_length=32)] = Field(description="The file name's extension.")
    file_type: MediaType = Field(description="The media type of the bytes, also with parameters.")
    description: Description = None
    access: Access = Field(default_factory=Access, description="Read access; private by default.")
    custom_data: CustomData = Field({})


class Image(Record):
    """An image. The server also stores `picture` {object, format, width, height, size, sha256}."""

    owned: ClassVar[frozenset[str]] = frozenset({"picture"})
    computed_members: ClassVar[Mapping[str, JsonSchemaValue]] = {
        "format": {
            "type": "string",
            "enum": ["jpg", "png", "webp", "gif"],
            "description": "Format of the stored picture.",
        },
        "ratio": {"type": "number", "description": "Width divided by height."},
        "url": {
            "type": "string",
            "format": "uri",
            "description": "Address of the picture in its default size. It changes with the picture, so caches "
            "never show an old one. A private picture needs an API key.",
        },
        "sizes": {
            "type": "object",
            "additionalProperties": {"type": "string", "format": "uri"},
            "description": "Addresses by size: the longer side has at most "
            + ", ".join(f"{pixels} pixels ({size})" for size, pixels in SIZES.items())
            + ".",
        },
    }
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | computed_members.keys()

    title: Title = None
    access: PublicAccess = Field(default_factory=PublicAccess, description="Read access; public by default.")
    custom_data: CustomData = Field({})
    image_text: Annotated[str, DESCRIPTION] | None = Field(None, description="Legacy: a description.")
    public_use: bool = Field(False, description="Legacy: records of other accounts may refer to it.")
    is_icon: bool = Field(False, description="Legacy: an icon, always a PNG; cannot be changed later.")
    tags: Tags = Field([])


def picture_version(document: Mapping[str, Any]) -> str:
    """Return the version of an image's picture: another one for another picture."""
    found: str = document["picture"]["object"]
    return found


def picture_url(key: str, document: Mapping[str, Any]) -> str:
    """Return the address of an image's picture, from `/`."""
    return f"/media/image/{key}?v={picture_version(document)}"


def picture_urls(key: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses of an image's renditions by size, from `/`."""
    return {size: f"{picture_url(key, document)}&size={size}" for size in SIZES}
