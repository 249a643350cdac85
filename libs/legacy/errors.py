"""The legacy API's messages for errors of the catalogue."""

from collections.abc import Mapping
from typing import Final

from libs.catalogue.errors import RecordNotFound, UnknownReferences
from libs.catalogue.resource_table import RESOURCES
from libs.contracts.validation import ValidationFailed
from libs.legacy.translator import Translator
from libs.tally.errors import NotFound, TallyError
from libs.views.catalogue.catalogue_views import CatalogueViews

NAMES: Final[Mapping[str, str]] = {"feeds": "articlefeed"}
"""Names of a record in error messages, if different from `singular`, by resource."""


class NoPermission(TallyError):
    """The record belongs to another brand."""

    code = "forbidden"


async def legacy_error(
    views: CatalogueViews, error: RecordNotFound | ValidationFailed, translator: Translator | None
) -> TallyError:
    """Return the error for a record that the account does not have, or for values, named by legacy parameters."""
    missing = error.missing if isinstance(error, RecordNotFound | UnknownReferences) else ()
    for resource, key in missing:
        if resource in RESOURCES:
            name = NAMES.get(resource, RESOURCES[resource].singular)
            if await views.find_owner(resource, key) is None:
                return NotFound(f"{name} not found")
            return NoPermission(f"no permission to {name}")
    return translator.renamed(error) if translator is not None and isinstance(error, ValidationFailed) else error
