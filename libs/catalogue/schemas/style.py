"""Schema of the legacy API's style object."""

from typing import Annotated, ClassVar

from pydantic import Field

from libs.catalogue.schemas.base import Members
from libs.contracts.validation import explained

Colour = Annotated[
    str,
    Field(
        pattern=explained(
            r"^#?([0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$",
            "must be a colour of 3, 4, 6 or 8 hex digits, such as #ff8800",
        ),
        description="3, 4, 6 or 8 hex digits, with or without `#`.",
        examples=["#ff8800"],
    ),
]


class Sides(Members):
    top: float | None = Field(None, description="At the top.")
    right: float | None = Field(None, description="At the right.")
    bottom: float | None = Field(None, description="At the bottom.")
    left: float | None = Field(None, description="At the left.")


class Corners(Members):
    top_left: float | None = Field(None, description="Radius of the corner.")
    top_right: float | None = Field(None, description="Radius of the corner.")
    bottom_right: float | None = Field(None, description="Radius of the corner.")
    bottom_left: float | None = Field(None, description="Radius of the corner.")


class StyleObject(Members):
    """The style of an element; all members are optional."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    padding: Sides | None = Field(None, description="Inner space.")
    margin: Sides | None = Field(None, description="Outer space.")
    corner_radiuses: Corners | None = Field(None, description="Radii of the corners.")
    width: float | None = Field(None, description="Width.")
    height: float | None = Field(None, description="Height.")
    scale: float | None = Field(None, description="Scale factor.")
    size: float | None = Field(None, description="Size.")
    text_size: float | None = Field(None, description="Text size.")
    elevation: float | None = Field(None, description="Elevation above the background.")
    text_font: str | None = Field(None, description="Text font.")
    text_style: str | None = Field(None, description="Text style.")
    image_style: str | None = Field(None, description="Image style, such as `circle`.")
    gravity: str | None = Field(None, description="Alignment, such as `center`.")
    modifier: str | None = Field(None, description="Modifier, such as `normal`.")
    image_crop: str | None = Field(None, description="Image crop, such as `center_crop`.")
    text_color: Colour | None = Field(None, description="Text colour.")
    icon_tint: Colour | None = Field(None, description="Icon colour.")
    background_color: Colour | None = Field(None, description="Background colour.")
    primary_color: Colour | None = Field(None, description="Primary colour.")
    secondary_color: Colour | None = Field(None, description="Secondary colour.")
