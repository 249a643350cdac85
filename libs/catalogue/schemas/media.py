"""Files and images: what is said about them; their bytes lie in the object store."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from libs.catalogue.schemas.base import FreeForm, Members, Record, Timestamp

Name = Annotated[str, Field(min_length=1, max_length=255)]


class Access(Members):
    """Who may read the bytes. `updated` is the server's: when that was changed last."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    access: Literal["private", "public"] = "private"
    updated: Timestamp | None = None


class PublicAccess(Access):
    access: Literal["private", "public"] = "public"


class File(Record):
    """The server keeps what it knows of the bytes: `bytes` {size, sha256, type, scanned, stored}."""

    owned: ClassVar[frozenset[str]] = frozenset({"bytes"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"is_scanned", "upload_url"}

    filename: Name
    file_extension: Annotated[str, Field(max_length=32)]
    file_type: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+*-]+$", max_length=255)] = Field(
        description="The media type."
    )
    description: str | None = None
    access: Access = Field(default_factory=Access)
    custom_data: FreeForm = Field({}, description="Free-form.")


class Image(Record):
    """The server keeps what it knows of the picture: `picture` {width, height, sha256, size}."""

    owned: ClassVar[frozenset[str]] = frozenset({"picture"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"format", "ratio"}

    title: str | None = None
    access: PublicAccess = Field(default_factory=PublicAccess)
    custom_data: FreeForm = Field({}, description="Free-form.")
