"""The records of the catalogue log, and what the view folded from it gives back.

An event says what was asked for; whether it took effect is judged by the fold, in log order, and kept as the
`Outcome` of its command id. Times are microseconds since 1970 UTC. `record` is JSON text that nothing but
`libs.catalogue` reads. A class never changes its meaning: a new shape is a new class with a type name of its own.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, assert_never

import orjson
from pydantic import StringConstraints

from libs.contracts.codec import Codec
from libs.tally.events import Actor, LogCreated

ACCOUNT_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
KEY_PATTERN: Final = r"^[A-Za-z0-9_.~-]{1,130}$"
"""A key of 64 characters, or two of them joined by "~"."""
OWN_KEY_PATTERN: Final = r"^(?!\.{1,2}$)[A-Za-z0-9_.~-]{1,130}$"
"""One that an account gives itself: clients resolve . and .. in an address."""
REF_KEY_PATTERN: Final = r"^[^\x00]{1,400}$"

Account = Annotated[str, StringConstraints(pattern=ACCOUNT_PATTERN)]
Resource = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_/]{0,63}$")]
Key = Annotated[str, StringConstraints(pattern=KEY_PATTERN)]
CommandId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
RefKey = Annotated[str, StringConstraints(pattern=REF_KEY_PATTERN)]
Ref = tuple[Resource, RefKey]
"""Names a record, or a part that a record offers to others ("conventions/days", "<convention>/<day>")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What every catalogue event carries. The same `command_id` takes effect at most once in 24 h of log time.

    `content` hashes the request that an idempotency key stands for, "" without one. No fold reads the `actor`.
    """

    account: Account
    command_id: CommandId
    at: int
    content: str = ""
    actor: Actor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWritten(Command):
    """`contest`: the contest whose configuration version this raises, whatever becomes of the event.

    `refs` are the record's firm references, `offers` its parts that others may refer to firmly. `due` is when
    somebody has to look at a contest next: when its phase becomes finished, as a rule.
    """

    resource: Resource
    key: Key
    record: str
    parent: Ref | None = None
    contest: Key | None = None
    refs: tuple[Ref, ...] = ()
    offers: tuple[Ref, ...] = ()
    due: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCreated(RecordWritten):
    """A new record; refused where the key exists, the parent does not, or something referred to does not."""

    type: Literal["RecordCreated"] = "RecordCreated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanged(RecordWritten):
    """The whole record as it is now, made from version `expected_version`; refused where that has passed."""

    expected_version: int
    type: Literal["RecordChanged"] = "RecordChanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One record of several: as `RecordChanged` says if it has an `expected_version`, else as `RecordCreated`."""

    resource: Resource
    key: Key
    record: str
    parent: Ref | None = None
    contest: Key | None = None
    refs: tuple[Ref, ...] = ()
    offers: tuple[Ref, ...] = ()
    due: int | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsWritten(Command):
    """Several records in one step: where one would be refused, none is written, and the outcome is that one's.

    They are judged by what all of them leave behind: one may refer to another that comes after it. A parent has to
    be there before; a record may be there once.
    """

    writes: tuple[Write, ...]
    type: Literal["RecordsWritten"] = "RecordsWritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDeleted(Command):
    """The record goes, and what belongs to it; refused where others refer to any of that firmly.

    `expected_parent` is the version of the parent by which the deletion was found to be allowed.
    """

    resource: Resource
    key: Key
    expected_version: int | None = None
    expected_parent: int | None = None
    contest: Key | None = None
    type: Literal["RecordDeleted"] = "RecordDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestClosing(Command):
    """The contest's record with its closing in it; its references stay as they were.

    Made from configuration version `expected_config`: refused where anything of the contest has changed since, be
    it the contest, a participant or a vote source.
    """

    contest: Key
    record: str
    expected_config: int
    type: Literal["ContestClosing"] = "ContestClosing"


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Bounds the use of an API key, beside its permissions."""

    name: str = ""
    expires: int | None = None
    networks: tuple[str, ...] = ()
    """In CIDR notation, from which alone the key may be used; none: from everywhere."""
    rate: int | None = None
    """Requests a second; 0 is no limit, None the limit of the settings."""


NO_RULES: Final = KeyRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIssued(Command):
    """An API key was made; of the key itself only its SHA-256 (hex) is kept."""

    key_id: Key
    sha256: str
    permissions: tuple[str, ...]
    rules: KeyRules = NO_RULES
    type: Literal["KeyIssued"] = "KeyIssued"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRevoked(Command):
    key_id: Key
    type: Literal["KeyRevoked"] = "KeyRevoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorActed:
    """An operator is about to do what no other event names the actor of. Folded into nothing.

    `arguments` hold no secrets and no voter's id.
    """

    action: str
    arguments: dict[str, str]
    at: int
    actor: Actor | None
    type: Literal["OperatorActed"] = "OperatorActed"


CatalogueCommand = (
    RecordCreated | RecordChanged | RecordsWritten | RecordDeleted | ContestClosing | KeyIssued | KeyRevoked
)
CatalogueEvent = LogCreated | OperatorActed | CatalogueCommand

catalogue_codec: Codec[CatalogueEvent] = Codec(CatalogueEvent)


def contests_of(event: CatalogueEvent) -> frozenset[str]:
    """The contests whose configuration versions the event raises."""
    match event:
        case RecordsWritten():
            named = {write.contest for write in event.writes}
        case RecordCreated() | RecordChanged() | RecordDeleted() | ContestClosing():
            named = {event.contest}
        case LogCreated() | OperatorActed() | KeyIssued() | KeyRevoked():
            named = set()
        case _:
            assert_never(event)
    return frozenset(contest for contest in named if contest is not None)


class OutcomeKind(IntEnum):
    """What became of a command."""

    OK = 1
    CONFLICT = 2
    """The version that it was made from, or judged by, has passed."""
    IN_USE = 3
    """Others refer to it firmly: `refs` lists them, the first hundred."""
    MISSING = 4
    """`refs` lists what it needs and does not exist: itself, its parent, or what it refers to."""
    EXISTS = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """One record as the view holds it.

    `version` is the offset of its last change: the ETag derives from it alone. `number` counts the records of one
    parent from 1, without gaps or doubles; 0 without a parent.
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
        """The record's own members, parsed anew at each call."""
        document: dict[str, Any] = orjson.loads(self.record)
        return document


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command. `written` are the records of an accepted write, in its order, as it left them.

    Their `record` is "" where the command came without an idempotency key.
    """

    kind: OutcomeKind
    offset: int
    content: str
    written: tuple[Stored, ...] = ()
    refs: tuple[Ref, ...] = ()

    @property
    def stored(self) -> Stored | None:
        """The one record of an accepted write of one."""
        return self.written[0] if self.written else None


@dataclass(frozen=True, slots=True)
class ContestConfig:
    """A contest with its participants, vote sources and the configuration version they stand at, read in one step.

    `version` is None when the view has seen no event that names the contest; `as_of` is the offset that the view
    stood at.
    """

    version: int | None
    contest: Stored | None
    participants: tuple[Stored, ...]
    sources: tuple[Stored, ...] = ()
    as_of: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One API key as the view holds it."""

    account: str
    key_id: str
    sha256: str
    permissions: tuple[str, ...]
    issued: int
    rules: KeyRules = NO_RULES


@dataclass(frozen=True, slots=True)
class KeyRows:
    """All keys of one partition; `rows` is None where they are still at the version asked for."""

    version: str
    rows: tuple[KeyRow, ...] | None
