"""Definition of a resource, one row of the table of resources, and of a record to write."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.errors import RecordNotFound, RecordTooLarge, VersionConflict
from libs.catalogue.schemas.base import Document, Record, merge_patch, owned_members
from libs.contracts.catalogue_events import Ref, Stored
from libs.contracts.limits import compact_json, record_body, record_bytes
from libs.contracts.validation import Problem, checked

Operation = Literal["create", "place", "list", "get", "patch", "delete"]
"""`create` assigns a random key; `place` uses a key chosen by the account."""
OPERATIONS: Final[frozenset[Operation]] = frozenset(get_args(Operation)) - {"place"}


@dataclass(frozen=True, slots=True)
class Reference:
    """A member with an enforced reference: the record it names must exist and cannot be deleted.

    `at` is a pointer, in which "*" stands for every item of a list. With `within_parent` the member names an
    offered part of the record's parent, such as a day of a convention.
    """

    at: str
    to: str
    within_parent: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """Parts of a record that others can reference: `at` points to their ids, `name` matches `Reference.to`."""

    at: str
    name: str


class JudgedBy(NamedTuple):
    """The versions of a record and of its parent by which a deletion was judged; None if one does not matter."""

    version: int | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource. A subclass has the rules of its own."""

    name: str
    """Name in paths, in events, and in the views."""
    singular: str
    schema: type[Record]
    example: Document
    parent: str | None = None
    """Parent resource: records are created and listed below it, deleted with it, and numbered within it."""
    contest: Literal["self", "parent"] | None = None
    """The contest whose configuration a change affects."""
    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Error codes of the resource's own rules, by method, for the documentation."""
    references: tuple[Reference, ...] = ()
    offers: tuple[Offer, ...] = ()
    shared_by: str | None = None
    """The member that lets records of other accounts reference the record. This does not prevent its deletion."""
    is_timed: bool = False
    """Responses also depend on the time, so the entity tag includes all members."""
    operations: frozenset[Operation] = OPERATIONS
    """Operations of the generic routes; others have their own router or do not exist."""

    def problems(self, body: Any, before: Document | None) -> Iterable[Problem]:
        """Return the problems of a new body beside those of the schema."""
        return ()

    def merged(self, before: Document, patch: Document) -> Document:
        """Return the body that a PATCH (RFC 7396) makes of the document `before`."""
        changed: Document = merge_patch(before, patch)
        return changed

    def complete(self, document: Document, target: "Target") -> None:
        """Set the server's members of the target's valid new document. Raises `ValidationFailed`."""

    def judge(self, before: Document, after: Document) -> None:
        """Raise to reject a change."""

    async def judge_by_votes(
        self, before: Stored, after: Document, permissions: Collection[str] | None, votes: ContestVotes
    ) -> None:
        """Raise to reject a change because of votes; the permissions are the caller's, if it has one."""

    async def judge_deletion(self, account: str, stored: Stored, votes: ContestVotes | None) -> JudgedBy:
        """Raise to reject the deletion of an account's record."""
        return JudgedBy()

    def due(self, document: Document) -> int | None:
        """Return the time (us) of the record's next check."""
        return None

    def sort_key(self, document: Document) -> str:
        """Return the text without NUL that orders the records of one parent in their natural order, if any."""
        return ""

    def computed(self, stored: Stored, now: int) -> Document:
        """Return members of a response, at `now` (us), that only the server sets."""
        return {}

    def validated(self, body: Any, before: Document | None = None, others: Iterable[Problem] = ()) -> Document:
        """Return the canonical document of a record that was `before`.

        Raises `ValidationFailed`, also for any problems in `others`, and `RecordTooLarge`, unless the record was
        too large before.
        """
        document = checked(self.schema, body, [*others, *self.problems(body, before)], before).stored()
        if (size := self._bytes(document)) > self.max_bytes >= self._bytes(before or {}):
            raise RecordTooLarge(
                f"A {self.singular.replace('_', ' ')} may have at most {self.max_bytes:,} bytes as JSON, "
                f"not {size:,}.",
                max_bytes=self.max_bytes,
            )
        return document

    @property
    def max_bytes(self) -> int:
        """The largest size of a record, by what clients write of it."""
        return record_bytes(self.name)

    @property
    def body_bytes(self) -> int:
        """The largest body of a write of one record."""
        return record_body(self.name)

    def _bytes(self, document: Document) -> int:
        return len(compact_json({name: document[name] for name in document.keys() - self.schema.owned}))

    def is_shared(self, document: Document) -> bool:
        """Return whether records of other accounts can reference the record."""
        return self.shared_by is not None and bool(document.get(self.shared_by))

    def contest_of(self, key: str, parent: str) -> str | None:
        """Return the contest whose configuration version a change of this record raises."""
        return {"self": key, "parent": parent}.get(self.contest or "")

    def not_found(self, key: str) -> RecordNotFound:
        return RecordNotFound(self.name, key, self.singular)

    def show(self, stored: Stored, now: int | None = None) -> Document:
        """Return the record as the current API's response, at `now` (us) or at present."""
        shown = self.schema.model_validate(stored.document).shown()
        computed = self.computed(stored, now or time.time_ns() // 1000)
        return {"key": stored.key} | shown | computed | stored.times


Fits = Callable[[Stored], bool]
"""The caller's precondition on the current version."""


@dataclass(frozen=True, slots=True)
class Target:
    """A record to write, as read at time `at` (us): `before` is None if it does not exist.

    `above` is the parent of a new record, None if the resource has no parent or the parent does not exist. `votes`
    are the environment's, None if it has none.
    """

    table: "Table"
    row: Resource
    key: str
    parent: str
    before: Stored | None
    above: Stored | None
    at: int
    votes: ContestVotes | None = None

    @property
    def version(self) -> int | None:
        return None if self.before is None else self.before.version

    @property
    def old(self) -> Document | None:
        """The record's document, None if it does not exist."""
        return None if self.before is None else self.before.document

    def existing(self, fits: Fits | None = None) -> Stored:
        """Return the record. Raises `NotFound`, and `VersionConflict` unless it `fits`."""
        if self.before is None:
            raise self.row.not_found(self.key)
        self.require_fit(fits)
        return self.before

    def require_fit(self, fits: Fits | None) -> None:
        """Raise `VersionConflict` unless there is a record that fits, if the caller has a precondition."""
        if fits is not None and (self.before is None or not fits(self.before)):
            raise VersionConflict(f"The {self.row.singular} {self.key} has changed since; read it again.")

    def document(self, body: Any, owned: Document | None = None, others: Iterable[Problem] = ()) -> Document:
        """Return the new document that `body` makes of the record: valid, with the server's members.

        `owned` replaces members of the server, which otherwise stay. Raises `ValidationFailed`, also for the
        problems in `others`, `NotFound` for a missing parent, and the errors of the row's `judge`.
        """
        row, before = self.row, self.old
        document = row.validated(body, before, others)
        document |= {name: before[name] for name in row.schema.owned if name in before} if before else {}
        document |= owned or {}
        if before is None and row.parent is not None and self.above is None:
            raise self.table[row.parent].not_found(self.parent)
        row.complete(document, self)
        if before is not None and document != before:
            row.judge(before, document)
        return document

    def whole(self, body: Document, owned: Document | None = None) -> Document:
        """Return the document as `document`, of a client's body: it must not have members of the server."""
        return self.document(body, owned, owned_members(self.row.schema, body))


class Table(Mapping[str, Resource]):
    """The resources by name. References to resources outside of the table are not checked."""

    def __init__(self, *rows: Resource) -> None:
        """Raises `ValueError` for a reference by which a DELETE would have to examine all descendants."""
        self._rows = {row.name: row for row in rows}
        parts = {offer.name for row in rows for offer in row.offers}
        self._targets = {*self._rows, *parts}
        for row in rows:
            for reference in row.references:
                target = self._rows.get(reference.to)
                descends = target is not None and target.parent is not None
                if descends or reference.to == row.parent or reference.within_parent != (reference.to in parts):
                    raise ValueError(f"{row.name}{reference.at}: no reference to {reference.to} is possible")

    def __getitem__(self, name: str) -> Resource:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def references(self, row: Resource, document: Document, parent: str) -> dict[str, Ref]:
        """Return the enforced references of a document by the pointer to the member that holds them."""
        return {
            where: (reference.to, f"{parent}/{value}" if reference.within_parent else value)
            for reference in row.references
            if reference.to in self._targets
            for where, value in _found(document, reference.at.split("/")[1:], "")
        }

    def offers(self, row: Resource, document: Document, key: str) -> tuple[Ref, ...]:
        """Return the parts of a document that others can reference."""
        return tuple(
            (offer.name, f"{key}/{value}")
            for offer in row.offers
            for _, value in _found(document, offer.at.split("/")[1:], "")
        )


def _found(value: Any, steps: list[str], where: str) -> Iterator[tuple[str, str]]:
    """Yield the non-empty strings at the end of `steps`, with their pointers; skip everything else."""
    if not steps:
        if isinstance(value, str) and value:
            yield where, value
        return
    step, *rest = steps
    if step == "*" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, rest, f"{where}/{index}")
    elif isinstance(value, dict) and step in value:
        yield from _found(value[step], rest, f"{where}/{step}")
