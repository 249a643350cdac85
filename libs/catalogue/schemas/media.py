"""Files and images: what is said about them; their bytes lie in the object store."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from libs.catalogue.schemas.base import CustomData, Description, Members, Record, ServerTime, Title

Name = Annotated[str, Field(min_length=1, max_length=255)]
Readers = Annotated[Literal["private", "public"], Field(description="Who may read the bytes.")]


class Access(Members):
    ignored: ClassVar[frozenset[str]] = frozenset()

    access: Readers = "private"
    updated: ServerTime = Field(None, description="When `access` was changed last.")


class PublicAccess(Access):
    access: Readers = "public"


class File(Record):
    """The server keeps what it knows of the bytes: `bytes` {size, sha256, type, scanned, stored}."""

    owned: ClassVar[frozenset[str]] = frozenset({"bytes"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"is_scanned", "upload_url"}

    filename: Name = Field(description="The file's name.")
    file_extension: Annotated[str, Field(max_length=32)] = Field(description="What the file's name ends with.")
    file_type: Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+*-]+$", max_length=255)] = Field(
        description="The media type."
    )
    description: Description = None
    access: Access = Field(default_factory=Access, description="Private, unless said otherwise.")
    custom_data: CustomData = Field({})


class Image(Record):
    """The server keeps what it knows of the picture: `picture` {width, height, sha256, size}."""

    owned: ClassVar[frozenset[str]] = frozenset({"picture"})
    ignored: ClassVar[frozenset[str]] = Record.ignored | owned | {"format", "ratio"}

    title: Title = None
    access: PublicAccess = Field(default_factory=PublicAccess, description="Public, unless said otherwise.")
    custom_data: CustomData = Field({})
