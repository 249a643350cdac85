"""What is to be written of a record: checked, and with what the event says of it besides."""

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
"""What a record is to be, made of what it was (None: there was none); raises to refuse."""

KEY_BYTES: Final = 12
REF_KEY: Final = re.compile(REF_KEY_PATTERN)


class Draft(NamedTuple):
    """`what` are the members of an event that writes the record; `refs` its references by their pointers."""

    refs: Refs
    what: dict[str, Any]

    def holding(self, refs: Refs) -> "Draft":
        """With these references alone."""
        return Draft(refs, self.what | {"refs": tuple(dict.fromkeys(refs.values()))})


class RecordBuilder:
    """By the rows of `table`; `at` is the time of a write (us). Everything raises `ValidationFailed`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def of(self, row: Resource, key: str, parent: str, document: Document) -> Draft:
        """Refused where something is named that no record can be called."""
        refs = self._table.references(row, document, parent)
        nameless = [(where, ref) for where, ref in refs.items() if not REF_KEY.fullmatch(ref[1])]
        if nameless:
            raise ValidationFailed(Problem(where, f"there is no {name} {key}") for where, (name, key) in nameless)
        what = {
            "resource": row.name,
            "key": key,
            "record": orjson.dumps(document).decode(),
            "parent": (row.parent, parent) if row.parent is not None else None,
            "contest": contest_of(row, key, parent),
            "refs": tuple(dict.fromkeys(refs.values())),
            "offers": self._table.offers(row, document, key),
            "due": row.due(document),
        }
        return Draft(refs, what)

    def new(self, row: Resource, document: Document, above: Stored | None, at: int, key: str = "") -> Draft:
        """A new record, under its parent if it has one, and under a key of its own unless one is given."""
        if above is not None and row.complete is not None:
            row.complete(document, above.document)
        if row.arrange is not None:
            row.arrange(None, document, at)
        return self.of(row, key or secrets.token_hex(KEY_BYTES), "" if above is None else above.key, document)

    def changed(
        self, row: Resource, before: Document, body: Any, at: int, owned: Document | None = None
    ) -> Document:
        """What a body makes of a document, and the server of its `owned` members.

        Raises what the row's `judge` raises, too.
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
        """Several records of one parent; a pointer begins with the place in `changes`.

        Refused, too: a record that is another parent's, or there twice.
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
                    raise ValidationFailed([Problem("", f"the {row.singular} {stored.key} is another's")])
                if stored.key in seen:
                    raise ValidationFailed([Problem("", f"the {row.singular} {stored.key} is there twice")])
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
    """The canonical document. Raises `ValidationFailed`, with `others` if there are any."""
    return checked(row.schema, body, others).stored()


def contest_of(row: Resource, key: str, parent: str) -> str | None:
    """The contest whose configuration a change of this record raises."""
    match row.contest:
        case "self":
            return key
        case "parent":
            return parent
    return None


def refs_of(drafts: Sequence[Draft]) -> Refs:
    """The references of several records, by pointers that begin with the record's place."""
    return {f"/{n}{where}": ref for n, draft in enumerate(drafts) for where, ref in draft.refs.items()}
