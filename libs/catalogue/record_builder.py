"""Validates a record and builds its event payload."""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from libs.catalogue.outcome_errors import Refs
from libs.catalogue.resource import Document, Resource, Table
from libs.catalogue.schemas.base import checked
from libs.contracts.catalogue import REF_KEY_PATTERN, Stored
from libs.contracts.validation import Problem, ValidationFailed

Change = Callable[[Document | None], Any]
"""Returns the new document for the old one (None: new record); raises to reject the write."""

KEY_BYTES: Final = 12
REF_KEY: Final = re.compile(REF_KEY_PATTERN)


class Draft(NamedTuple):
    """A validated write: `payload` holds the event's members, `refs` the record's references by pointer."""

    refs: Refs
    payload: dict[str, Any]

    def holding(self, refs: Refs) -> "Draft":
        """Replace the references."""
        return Draft(refs, self.payload | {"refs": tuple(dict.fromkeys(refs.values()))})


class RecordBuilder:
    """Builds writes for the resources of `table`, at time `at` (us). All methods raise `ValidationFailed`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def of(self, row: Resource, key: str, parent: str, document: Document) -> Draft:
        """Build the write of a valid document. Rejects references with impossible keys."""
        refs = self._table.references(row, document, parent)
        nameless = [(where, ref) for where, ref in refs.items() if not REF_KEY.fullmatch(ref[1])]
        if nameless:
            raise ValidationFailed(Problem(where, f"there is no {name} {key}") for where, (name, key) in nameless)
        payload = {
            "resource": row.name,
            "key": key,
            "record": orjson.dumps(document).decode(),
            "parent": (row.parent, parent) if row.parent is not None else None,
            "contest": contest_of(row, key, parent),
            "refs": tuple(dict.fromkeys(refs.values())),
            "offers": self._table.offers(row, document, key),
            "due": row.due(document),
        }
        return Draft(refs, payload)

    def new(self, row: Resource, document: Document, above: Stored | None, at: int, key: str = "") -> Draft:
        """Build the creation of a record below its parent `above`, if any; `key` is random by default."""
        if above is not None and row.complete is not None:
            row.complete(document, above.document)
        if row.arrange is not None:
            row.arrange(None, document, at)
        return self.of(row, key or secrets.token_hex(KEY_BYTES), "" if above is None else above.key, document)

    def changed(
        self, row: Resource, before: Document, body: Any, at: int, owned: Document | None = None
    ) -> Document:
        """Validate `body` as the new document; `owned` replaces the server's members, which otherwise stay.

        Also raises the errors of the row's `judge`.
        """
        kept = {name: before[name] for name in row.schema.owned if name in before}
        document = validated(row, body) | kept | (owned or {})
        if row.arrange is not None:
            row.arrange(before, document, at)
        if row.judge is not None and document != before:
            row.judge(before, document)
        return document

    def together(
        self, row: Resource, above: Stored, changes: Sequence[tuple[Stored | None, Change]], at: int
    ) -> list[Draft]:
        """Build writes of several records of one parent; error pointers start with the index in `changes`.

        Also rejects records of another parent and duplicates.
        """
        drafts: list[Draft] = []
        problems: list[Problem] = []
        seen: set[str] = set()
        for index, (stored, change) in enumerate(changes):
            try:
                if stored is None:
                    drafts.append(self.new(row, validated(row, change(None)), above, at))
                    continue
                if stored.parent != above.key:
                    raise ValidationFailed(
                        [Problem("", f"the {row.singular} {stored.key} belongs to another parent")]
                    )
                if stored.key in seen:
                    raise ValidationFailed([Problem("", f"the {row.singular} {stored.key} occurs twice")])
                seen.add(stored.key)
                document = self.changed(row, stored.document, change(stored.document), at)
                drafts.append(self.of(row, stored.key, above.key, document))
            except ValidationFailed as error:
                problems += (
                    Problem(f"/{index}{each['pointer']}", each["message"]) for each in error.data["errors"]
                )
        if problems:
            raise ValidationFailed(problems)
        return drafts


def validated(row: Resource, body: Any, others: Iterable[Problem] = ()) -> Document:
    """Return the canonical document. Raises `ValidationFailed`, also for any problems in `others`."""
    return checked(row.schema, body, others).stored()


def contest_of(row: Resource, key: str, parent: str) -> str | None:
    """Return the contest whose configuration version a change of this record raises."""
    match row.contest:
        case "self":
            return key
        case "parent":
            return parent
    return None


def refs_of(drafts: Sequence[Draft]) -> Refs:
    """Return the references of several records; their pointers start with the record's index."""
    return {f"/{n}{where}": ref for n, draft in enumerate(drafts) for where, ref in draft.refs.items()}
