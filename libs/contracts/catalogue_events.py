"""Events of the catalogue log, and the types that its view returns.

An event states a request. The fold decides in log order whether it takes effect, and stores the `Outcome` by
command id. Times are microseconds since 1970 UTC. `record` is JSON text that only `libs.catalogue` reads. A class
never changes its meaning: a new shape is a new class with its own type name.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec
import orjson
from pydantic import StringConstraints

from libs.contracts.codec import Codec
from libs.tally.events import Actor, LogCreated, LogLost
from libs.tally.time_conversion import timestamp

ACCOUNT_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
KEY_PATTERN: Final = r"^[A-Za-z0-9_.~-]{1,130}$"
"""A key of 64 characters, or two of them joined by "~"."""
OWN_KEY_PATTERN: Final = r"^(?!\.{1,2}$)[A-Za-z0-9_.~-]{1,130}$"
"""A key chosen by the account: not . or .., because clients resolve them in a URL."""
REF_KEY_PATTERN: Final = r"^[^\x00]{1,400}$"

Account = Annotated[str, StringConstraints(pattern=ACCOUNT_PATTERN)]
Resource = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_/]{0,63}$")]
Key = Annotated[str, StringConstraints(pattern=KEY_PATTERN)]
CommandId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
RefKey = Annotated[str, StringConstraints(pattern=REF_KEY_PATTERN)]
Ref = tuple[Resource, RefKey]
"""Names a record, or a part of a record that others can reference ("conventions/days", "<convention>/<day>")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Members of every catalogue event. The same `command_id` takes effect at most once in 24 h of log time.

    `content` is the hash of a request with an idempotency key, "" without one. No fold reads the `actor`.
    """

    account: Account
    command_id: CommandId
    at: int
    content: str = ""
    actor: Actor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWritten(Command):
    """Members of a write. Even if it is rejected, it raises the configuration version of `contest`.

    `refs` are the record's enforced references, `offers` its parts that others can reference. `due` is the time of
    the contest's next check: usually the time when its phase becomes finished. `sort_key` orders the record among
    those of its parent, as text; "" leaves it out of that order.
    """

    resource: Resource
    key: Key
    record: str
    parent: Ref | None = None
    contest: Key | None = None
    refs: tuple[Ref, ...] = ()
    offers: tuple[Ref, ...] = ()
    due: int | None = None
    sort_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCreated(RecordWritten):
    """A new record; rejected if the key exists, or if the parent or a referenced record does not exist."""

    type: Literal["RecordCreated"] = "RecordCreated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanged(RecordWritten):
    """The complete new record, based on `expected_version`; rejected if the current version differs."""

    expected_version: int
    type: Literal["RecordChanged"] = "RecordChanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write of `RecordsWritten`: a change if it has an `expected_version`, otherwise a creation."""

    resource: Resource
    key: Key
    record: str
    parent: Ref | None = None
    contest: Key | None = None
    refs: tuple[Ref, ...] = ()
    offers: tuple[Ref, ...] = ()
    due: int | None = None
    sort_key: str = ""
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWritten(Command):
    """Several records written atomically: if one write is rejected, so are all, with its outcome.

    References are checked against the state after all writes, so a write can reference a later one. Parents must
    exist before; each record may occur only once.
    """

    writes: tuple[Write, ...]
    type: Literal["RecordsWritten"] = "RecordsWritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDeleted(Command):
    """Deletes a record and its children; rejected if other records hold enforced references to any of them.

    `expected_parent` is the version of the parent for which the deletion was checked.
    """

    resource: Resource
    key: Key
    expected_version: int | None = None
    expected_parent: int | None = None
    contest: Key | None = None
    type: Literal["RecordDeleted"] = "RecordDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestClosing(Command):
    """The contest's record with its closing added; its references do not change.

    Based on configuration version `expected_config`: rejected if the contest, a participant or a vote source has
    changed since.
    """

    contest: Key
    record: str
    expected_config: int
    type: Literal["ContestClosing"] = "ContestClosing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestRestored(Command):
    """Takes the deletion of a contest back, with all that belongs to it; `due` as in `RecordWritten`.

    References to records that were deleted since are no longer enforced.
    """

    contest: Key
    due: int | None = None
    type: Literal["ContestRestored"] = "ContestRestored"


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Restrictions of an API key other than its permissions."""

    name: str = ""
    expires: int | None = None
    networks: tuple[str, ...] = ()
    """Networks in CIDR notation that may use the key; empty: all."""
    rate: int | None = None
    """Requests per second; 0: unlimited; None: the limit of the settings."""


NO_RULES: Final = KeyRules()


@dataclass(frozen=True, slots=True)
class KeyAncestor:
    """A key with whose rate another one, which it made or whose maker it made, is limited; it may be revoked."""

    key_id: Key
    rate: int | None
    """As in `KeyRules`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIssued(Command):
    """A new API key: only the key's SHA-256 (hex) is stored. Rejected if its parent is no key of the account."""

    key_id: Key
    sha256: str
    permissions: tuple[str, ...]
    rules: KeyRules = NO_RULES
    ancestors: tuple[KeyAncestor, ...] = ()
    """The keys that it descends from: its parent, which made it, is the last. Empty if an operator made it."""
    type: Literal["KeyIssued"] = "KeyIssued"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRevoked(Command):
    """Revokes a key and, unless `keeps_descendants`, all that descend from it."""

    key_id: Key
    keeps_descendants: bool = False
    type: Literal["KeyRevoked"] = "KeyRevoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorActed:
    """Records the actor of an operator's action before it starts, for actions without an event. Not folded.

    `arguments` hold no secrets and no voter ids.
    """

    action: str
    arguments: dict[str, str]
    at: int
    actor: Actor | None
    type: Literal["OperatorActed"] = "OperatorActed"


CatalogueCommand = (
    RecordCreated
    | RecordChanged
    | RecordsWritten
    | RecordDeleted
    | ContestRestored
    | ContestClosing
    | KeyIssued
    | KeyRevoked
)
CatalogueEvent = LogCreated | LogLost | OperatorActed | CatalogueCommand

catalogue_codec: Codec[CatalogueEvent] = Codec(CatalogueEvent)


def contests_of(event: CatalogueEvent) -> frozenset[str]:
    """Return the contests whose configuration version the event raises."""
    match event:
        case RecordsWritten():
            named = {write.contest for write in event.writes}
        case RecordCreated() | RecordChanged() | RecordDeleted() | ContestRestored() | ContestClosing():
            named = {event.contest}
        case LogCreated() | LogLost() | OperatorActed() | KeyIssued() | KeyRevoked():
            named = set()
        case _:
            assert_never(event)
    return frozenset(contest for contest in named if contest is not None)


class OutcomeKind(IntEnum):
    """Result of a command."""

    OK = 1
    CONFLICT = 2
    """The expected version is no longer current."""
    IN_USE = 3
    """Other records hold enforced references to it; `refs` lists the first hundred."""
    MISSING = 4
    """`refs` lists the missing records: the record itself, its parent, or referenced records."""
    EXISTS = 5


class _Parsed:
    """Holds a parsed document beside the members of a dataclass, which are compared and encoded."""

    __slots__ = ("_document",)
    _document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored(_Parsed):
    """One record of the view.

    `version` is the offset of its last change. The ETag derives only from `updated`, which grows with each change:
    offsets would show other accounts' writes. `number` counts the records of one parent from 1, without gaps or
    duplicates; 0 without a parent.
    """

    key: str
    version: int
    created: int
    updated: int
    number: int
    parent: str
    record: str

    @property
    def document(self) -> dict[str, Any]:
        """Return the record's JSON, parsed once: all readers share it, and change only copies."""
        try:
            return self._document
        except AttributeError:
            document: dict[str, Any] = orjson.loads(self.record)
            object.__setattr__(self, "_document", document)
            return document

    def without(self, member: str) -> "Stored":
        """Return the record without a member, which is not parsed; this one if it has none of that name."""
        members = msgspec.json.decode(self.record, type=dict[str, msgspec.Raw]) if member in self.record else {}
        if members.pop(member, None) is None:
            return self
        return replace(self, record=msgspec.json.encode(members).decode())

    @property
    def times(self) -> dict[str, str | None]:
        """Return the members of a response with the record's times."""
        return {"created": timestamp(self.created), "updated": timestamp(self.updated)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a command. `written` are the stored records of an accepted write, in its order.

    Their `record` is "": the log has it at their `version`.
    """

    kind: OutcomeKind
    offset: int
    content: str
    written: tuple[Stored, ...] = ()
    refs: tuple[Ref, ...] = ()

    @property
    def stored(self) -> Stored | None:
        """Return the first written record, or None."""
        return self.written[0] if self.written else None


@dataclass(frozen=True, slots=True)
class ContestRecords:
    """A contest with its participants, vote sources, show and configuration version, read atomically.

    `version` is None if the view has folded no event of the contest; `as_of` is the view's offset at the read. The
    participants in `shortened` are without their free-form `data`, which no rule reads: it may have megabytes.
    """

    version: int | None
    contest: Stored | None
    participants: tuple[Stored, ...]
    sources: tuple[Stored, ...] = ()
    show: Stored | None = None
    as_of: int = field(default=0, compare=False)
    shortened: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, with the rules that apply to its requests; only the SHA-256 (hex) of its text is kept.

    `ancestors` are the keys that it descends from, also revoked ones: its parent is the last.
    """

    account: str
    key_id: str
    sha256: str
    permissions: tuple[str, ...]
    issued: int
    rules: KeyRules = NO_RULES
    ancestors: tuple[KeyAncestor, ...] = ()
    command_id: str = ""
    """The command that issued it."""

    @property
    def parent(self) -> str | None:
        """The id of the key that made it; None if an operator did."""
        return self.ancestors[-1].key_id if self.ancestors else None

    def descends_from(self, key_id: str) -> bool:
        return any(ancestor.key_id == key_id for ancestor in self.ancestors)


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """All API keys of one partition; `rows` is None if the requested version is current."""

    version: str
    rows: tuple[ApiKey, ...] | None
