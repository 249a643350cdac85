"""Turns request bodies into events, in one direction and without I/O: body → document → draft → event."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from libs.catalogue.outcome_errors import Refs, has_changed, no_such, unknown_reference
from libs.catalogue.resource_definition import Document, Resource, Table
from libs.catalogue.schemas.base import checked
from libs.contracts.catalogue_events import (
    REF_KEY_PATTERN,
    RecordChanged,
    RecordCreated,
    RecordsWritten,
    Stored,
    Write,
)
from libs.contracts.validation import Problem, ValidationFailed

KEY_BYTES: Final = 12
TITLED: Final = ("contests", "participants")
"""Resources that audiences identify by title."""
MOST_REFERENCES: Final = 500
"""References of a record, and parts that others can refer to: each costs its fold 2 µs of Valkey's time."""
REF_KEY: Final = re.compile(REF_KEY_PATTERN)

Fits = Callable[[Stored], bool]
"""The caller's precondition on the current version."""


@dataclass(frozen=True, slots=True)
class Target:
    """A record to write, as read at time `at` (us): `before` is None if it does not exist.

    `above` is the parent of a new record, None if the resource has no parent or the parent does not exist.
    """

    row: Resource
    key: str
    parent: str
    before: Stored | None
    above: Stored | None
    at: int

    def existing(self, fits: Fits | None = None) -> Stored:
        """Return the record. Raises `NotFound`, and `VersionConflict` unless it `fits`."""
        if self.before is None:
            raise no_such(self.row, self.key)
        if fits is not None and not fits(self.before):
            raise has_changed(self.row, self.key)
        return self.before


class Draft(NamedTuple):
    """A valid write: `payload` holds the event's members, `refs` the record's references by pointer."""

    target: Target
    document: Document
    refs: Refs
    payload: dict[str, Any]

    def holding(self, refs: Refs) -> "Draft":
        """Replace the references."""
        payload = self.payload | {"refs": tuple(dict.fromkeys(refs.values()))}
        return self._replace(refs=refs, payload=payload)

    @property
    def version(self) -> int | None:
        """Version of the record that the write is based on; None for a new record."""
        return None if self.target.before is None else self.target.before.version


class RecordBuilder:
    """Builds writes for the resources of `table`. All methods raise `ValidationFailed`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def document(
        self, target: Target, body: Any, *, owned: Document | None = None, others: Iterable[Problem] = ()
    ) -> Document:
        """Validate `body` as the target's new document, with the problems in `others`.

        `owned` replaces the server's members, which otherwise stay. Also raises `NotFound` for a missing parent,
        and the errors of the row's `judge`.
        """
        row, above = target.row, target.above
        old = None if target.before is None else target.before.document
        document = validated(row, body, [*others, *_blank_title(row, old, body)])
        document |= {name: old[name] for name in row.schema.owned if name in old} if old is not None else {}
        document |= owned or {}
        if old is None and row.parent is not None:
            if above is None:
                raise no_such(self._table[row.parent], target.parent)
            if row.complete is not None:
                row.complete(document, above.document)
        if row.arrange is not None:
            row.arrange(old, document, target.at)
        if old is not None and row.judge is not None and document != old:
            row.judge(old, document)
        return document

    def draft(self, target: Target, document: Document) -> Draft:
        """Build the write of a valid document. Rejects references with impossible keys."""
        row, key = target.row, target.key
        refs = self._table.references(row, document, target.parent)
        nameless = [(where, ref) for where, ref in refs.items() if not REF_KEY.fullmatch(ref[1])]
        if nameless:
            raise ValidationFailed(Problem(where, unknown_reference(name, key)) for where, (name, key) in nameless)
        offers = self._table.offers(row, document, key)
        if len(refs) + len(offers) > MOST_REFERENCES:
            message = f"at most {MOST_REFERENCES} references, and parts that others can refer to, are possible"
            raise ValidationFailed([Problem("", message)])
        payload = {
            "resource": row.name,
            "key": key,
            "record": orjson.dumps(document).decode(),
            "parent": (row.parent, target.parent) if row.parent is not None else None,
            "contest": contest_of(row, key, target.parent),
            "refs": tuple(dict.fromkeys(refs.values())),
            "offers": offers,
            "due": row.due(document),
            "sort_key": row.sort_key(document),
        }
        return Draft(target, document, refs, payload)


def validated(row: Resource, body: Any, others: Iterable[Problem] = ()) -> Document:
    """Return the canonical document. Raises `ValidationFailed`, also for any problems in `others`."""
    return checked(row.schema, body, others).stored()


def _blank_title(row: Resource, old: Document | None, body: Any) -> Iterator[Problem]:
    """Yield a problem for a new title without a visible character; one stored earlier may be sent back."""
    title = body.get("title") if isinstance(body, dict) and row.name in TITLED else None
    if isinstance(title, str) and not title.strip() and (old is None or old.get("title") != title):
        yield Problem("/title", "must not be blank")


def contest_of(row: Resource, key: str, parent: str) -> str | None:
    """Return the contest whose configuration version a change of this record raises."""
    match row.contest:
        case "self":
            return key
        case "parent":
            return parent
    return None


def event_of(head: dict[str, Any], draft: Draft) -> RecordCreated | RecordChanged:
    """Return the event that writes one record; `head` holds the members of a `Command`."""
    if draft.version is None:
        return RecordCreated(**head, **draft.payload)
    return RecordChanged(**head, **draft.payload, expected_version=draft.version)


def event_together(head: dict[str, Any], drafts: Sequence[Draft]) -> RecordsWritten:
    """Return the event that writes several records atomically."""
    writes = tuple(Write(**draft.payload, expected_version=draft.version) for draft in drafts)
    return RecordsWritten(**head, writes=writes)
