"""Maps rejected writes to API errors."""

from libs.catalogue.errors import InUse, UnknownReferences, VersionConflict
from libs.catalogue.resource_definition import Resource
from libs.contracts.catalogue_events import Outcome, OutcomeKind, Ref
from libs.contracts.validation import Problem
from libs.tally.errors import NotFound, TallyError

Refs = dict[str, Ref]
"""References by the RFC 6901 pointer to the member that holds them."""


def refusal(row: Resource, key: str, parent: str, outcome: Outcome, refs: Refs) -> TallyError:
    """Return the API error for the outcome of a rejected write; lost races are repeated instead."""
    match outcome.kind:
        case OutcomeKind.IN_USE:
            return InUse(outcome.refs)
        case OutcomeKind.MISSING if (row.name, key) in outcome.refs:
            return no_such(row, key)
        case OutcomeKind.MISSING if row.parent is not None and (row.parent, parent) in outcome.refs:
            return NotFound(f"{row.parent.capitalize()} {parent} not found.")
        case OutcomeKind.MISSING:
            missing = set(outcome.refs)
            problems = [Problem(where, unknown_reference(*ref)) for where, ref in refs.items() if ref in missing]
            problems = problems or [Problem("", unknown_reference(*ref)) for ref in outcome.refs]
            return UnknownReferences(problems, outcome.refs)
    return TallyError(f"unexpected outcome {outcome.kind!r}")


def unknown_reference(resource: str, key: str) -> str:
    """Return the message for a reference to a missing record, or to a missing part of its parent."""
    singular = resource.rpartition("/")[2].removesuffix("s").replace("_", " ")
    return f"there is no {singular} {key.rpartition('/')[2]}; create it first, or name another"


def no_such(row: Resource, key: str) -> NotFound:
    return NotFound(f"{row.singular.capitalize()} {key} not found.")


def exists(row: Resource, key: str) -> VersionConflict:
    return VersionConflict(f"The {row.singular} {key} already exists.")


def has_changed(row: Resource, key: str) -> VersionConflict:
    return VersionConflict(f"The {row.singular} {key} has changed since; read it again.")
