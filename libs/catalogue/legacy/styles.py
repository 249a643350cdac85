"""Style objects, which the legacy generation checks; in the current one they are free-form."""

from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.legacy.fields import JsonSchema
from libs.catalogue.schemas.base import checked
from libs.catalogue.schemas.style import StyleObject
from libs.catalogue.table import Document
from libs.contracts.problems import Problem, ValidationFailed

STYLE: Final[JsonSchema] = {
    "type": "object",
    "description": "`padding` and `margin` {top, right, bottom, left}, `corner_radiuses` {top_left, top_right, "
    "bottom_right, bottom_left}; numbers `width`, `height`, `scale`, `size`, `text_size`, `elevation`; texts "
    "`text_font`, `text_style`, `image_style`, `gravity`, `modifier`, `image_crop`; colours `text_color`, "
    "`icon_tint`, `background_color`, `primary_color`, `secondary_color` (`#` and hex digits). Nothing else.",
}
"""Of a `style` parameter."""


def styled(document: Document, body: Mapping[str, Any], before: Document | None) -> Document:
    """`document`, with what `style` in the body makes of the style that was.

    Members that legacy does not know keep their value; what the body does not change is not checked. Raises
    `ValidationFailed`.
    """
    given = body.get("style")
    if not isinstance(given, dict):
        return document
    held = (before or {}).get("style", {})
    try:
        checked(StyleObject, {name: value for name, value in given.items() if held.get(name) != value})
    except ValidationFailed as error:
        found = error.data["errors"]
        raise ValidationFailed(Problem(f"/style{each['pointer']}", each["message"]) for each in found) from None
    unknown = {name: value for name, value in held.items() if name not in StyleObject.model_fields}
    return document | {"style": unknown | {name: value for name, value in given.items() if value is not None}}
