"""The style object of the legacy generation."""

from typing import Annotated, ClassVar

from pydantic import Field

from libs.catalogue.schemas.base import Members

Colour = Annotated[
    str,
    Field(
        pattern=r"^#([0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$",
        description="`#` and 3, 4, 6 or 8 hex digits.",
        examples=["#ff8800"],
    ),
]


class Sides(Members):
    top: float | None = Field(None, description="At the top.")
    right: float | None = Field(None, description="At the right.")
    bottom: float | None = Field(None, description="At the bottom.")
    left: float | None = Field(None, description="At the left.")


class Corners(Members):
    top_left: float | None = Field(None, description="The radius there.")
    top_right: float | None = Field(None, description="The radius there.")
    bottom_right: float | None = Field(None, description="The radius there.")
    bottom_left: float | None = Field(None, description="The radius there.")


class StyleObject(Members):
    """How something is drawn; every member may be left out."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    padding: Sides | None = Field(None, description="Space inside.")
    margin: Sides | None = Field(None, description="Space around it.")
    corner_radiuses: Corners | None = Field(None, description="How round its corners are.")
    width: float | None = Field(None, description="Its width.")
    height: float | None = Field(None, description="Its height.")
    scale: float | None = Field(None, description="How much it is enlarged.")
    size: float | None = Field(None, description="Its size.")
    text_size: float | None = Field(None, description="Size of its text.")
    elevation: float | None = Field(None, description="How far it stands out.")
    text_font: str | None = Field(None, description="Font of its text.")
    text_style: str | None = Field(None, description="Style of its text.")
    image_style: str | None = Field(None, description="Such as `circle`.")
    gravity: str | None = Field(None, description="Such as `center`.")
    modifier: str | None = Field(None, description="Such as `normal`.")
    image_crop: str | None = Field(None, description="Such as `center_crop`.")
    text_color: Colour | None = Field(None, description="Colour of its text.")
    icon_tint: Colour | None = Field(None, description="Colour of its icon.")
    background_color: Colour | None = Field(None, description="Colour behind it.")
    primary_color: Colour | None = Field(None, description="Its first colour.")
    secondary_color: Colour | None = Field(None, description="Its second colour.")
