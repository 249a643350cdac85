"""Files and images: what is said about them; their bytes lie in the object store."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from libs.catalogue.schemas.base import CustomData, Description, Members, Record, ServerTime, Tags, Title

Name = Annotated[str, Field(min_length=1, max_length=255)]
MediaType = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$", max_length=255)]
Readers = Annotated[Literal["private", "public"], Field(description="Who may read the bytes.")]


class Access(Members):
    ignored: ClassVar[frozenset[str]] = frozenset()

    access: Readers = "private"
    updated: ServerTime = Field(None, description="When `access` was changed last.")


class PublicAccess(Access):
    access: Readers = "public"


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """What the server knows of a file's bytes, as its record's `bytes`.

    `object` names them among the file's objects; `fits`: they are what `type` says; `scanned`: a malware scanner
    passed them.
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
    """Of a file's document; None before they are sent, and when they were deleted."""
    kept = document.get("bytes")
    return None if kept is None else KeptBytes(**kept)


def is_scanned(document: dict[str, Any]) -> bool:
    """Whether a file has bytes, and a malware scanner passed them."""
    kept = kept_bytes(document)
    return kept is not None and kept.scanned


def fits_type(document: dict[str, Any]) -> bool:
    """Whether a file has bytes, and they are what the record says they are now."""
    kept = kept_bytes(document)
    return kept is not None and kept.fits and kept.type == document["file_type"]


def upload_id(document: dict[str, Any]) -> str:
    """What the signature of a file's address covers beside its key: another one ends all earlier addresses."""
    found: str = document.get("upload_id", "")
    return found


class File(Record):
    """The server keeps what it knows of the bytes, `bytes`: `KeptBytes`; and `upload_id`: see `upload_id`."""

    owned: ClassVar[frozenset[str]] = frozenset({"bytes", "upload_id"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"is_scanned", "upload_url"}

    filename: Name = Field(description="The file's name.")
    file_extension: Annotated[str, Field(max_length=32)] = Field(description="What the file's name ends with.")
    file_type: MediaType = Field(description="The media type that the bytes are served as.")
    description: Description = None
    access: Access = Field(default_factory=Access, description="Private, unless said otherwise.")
    custom_data: CustomData = Field({})


class Image(Record):
    """The server keeps what it knows of the picture: `picture` {object, format, width, height, size, sha256}."""

    owned: ClassVar[frozenset[str]] = frozenset({"picture"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"format", "ratio"}

    title: Title = None
    access: PublicAccess = Field(default_factory=PublicAccess, description="Public, unless said otherwise.")
    custom_data: CustomData = Field({})
    image_text: str | None = Field(None, description="Legacy: a longer text.")
    public_use: bool = Field(False, description="Legacy: records of other accounts may refer to it.")
    is_icon: bool = Field(False, description="Legacy: an icon, and a png; settled when it is made.")
    tags: Tags = Field([])
