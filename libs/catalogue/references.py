"""References between records, also of several accounts, and the errors of writes that the fold refuses."""

import re
from collections.abc import Collection
from typing import Final

from libs.catalogue.errors import InUse, RecordNotFound, UnknownReferences
from libs.catalogue.resource_definition import Resource, Table
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import REF_KEY_PATTERN, Outcome, OutcomeKind, Ref, Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import TallyError
from libs.views.catalogue.catalogue_views import CatalogueViews

MOST_REFERENCES: Final = 500
"""References of a record, and parts that others can refer to: each costs its fold 2 µs of Valkey's time."""
REF_KEY: Final = re.compile(REF_KEY_PATTERN)

Refs = dict[str, Ref]
"""References by the RFC 6901 pointer to the member that holds them."""


def collected(table: Table, row: Resource, document: Document, parent: str, key: str, where: str = "") -> Refs:
    """Collect the references of a valid document, their pointers below `where`.

    Raises `ValidationFailed` for references with impossible keys, and for too many.
    """
    refs = table.references(row, document, parent)
    nameless = [(at, ref) for at, ref in refs.items() if not REF_KEY.fullmatch(ref[1])]
    if nameless:
        raise ValidationFailed(Problem(at, _unknown_reference(*ref)) for at, ref in nameless)
    if len(refs) + len(table.offers(row, document, key)) > MOST_REFERENCES:
        message = f"at most {MOST_REFERENCES} references, and parts that others can refer to, are possible"
        raise ValidationFailed([Problem("", message)])
    return {where + at: ref for at, ref in refs.items()}


async def enforced(views: CatalogueViews, table: Table, account: str, refs: Refs, held: Collection[Ref]) -> Refs:
    """Return the references without those to other accounts' shared records, which are not enforced.

    References in `held`, which the record had before, stay allowed if their target is no longer shared.
    """

    async def is_shared(ref: Ref) -> bool:
        row = table.get(ref[0])
        if row is None or row.shared_by is None or await views.get(account, *ref) is not None:
            return False
        return ref in held or await find_shared(views, row, ref[1]) is not None

    return {where: ref for where, ref in refs.items() if not await is_shared(ref)}


async def find_shared(views: CatalogueViews, row: Resource, key: str) -> tuple[str, Stored] | None:
    """Return a record that its account shares with all others, such as an image for public use, with its owner."""
    owner = None if row.shared_by is None else await views.find_owner(row.name, key)
    stored = None if owner is None else await views.get(owner, row.name, key)
    if owner is None or stored is None or not row.is_shared(stored.document):
        return None
    return owner, stored


async def find_usable(views: CatalogueViews, row: Resource, account: str, key: str) -> tuple[str, Stored] | None:
    """Return the account's own record, or one shared by another account, with its owner."""
    own = await views.get(account, row.name, key)
    return (account, own) if own is not None else await find_shared(views, row, key)


def refusal(row: Resource, key: str, parent: str, outcome: Outcome, refs: Refs) -> TallyError:
    """Return the API error for the outcome of a rejected write; lost races are repeated instead."""
    match outcome.kind:
        case OutcomeKind.IN_USE:
            return InUse(outcome.refs)
        case OutcomeKind.MISSING if (row.name, key) in outcome.refs:
            return row.not_found(key)
        case OutcomeKind.MISSING if row.parent is not None and (row.parent, parent) in outcome.refs:
            return RecordNotFound(row.parent, parent, row.parent)
        case OutcomeKind.MISSING:
            missing = set(outcome.refs)
            problems = [Problem(where, _unknown_reference(*ref)) for where, ref in refs.items() if ref in missing]
            problems = problems or [Problem("", _unknown_reference(*ref)) for ref in outcome.refs]
            return UnknownReferences(problems, outcome.refs)
    return TallyError(f"unexpected outcome {outcome.kind!r}")


def _unknown_reference(resource: str, key: str) -> str:
    """Return the message for a reference to a missing record, or to a missing part of its parent."""
    singular = resource.rpartition("/")[2].removesuffix("s").replace("_", " ")
    return f"there is no {singular} {key.rpartition('/')[2]}; create it first, or name another"
