"""Schema of an external vote source's registration with a contest: title, mode and mapping to participants."""

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from libs.catalogue.api_examples import EXAMPLES
from libs.catalogue.schemas.base import Record

SOURCE_NAME: Final = re.compile(r"(?!c-|\.{1,2}$)[A-Za-z0-9_.-]{1,64}")
"""Names that begin with `c-` are reserved for internal sources; clients resolve . and .. in a URL."""
MAX_MAPPED_ID_BYTES: Final = 128


def _mapped_id(value: str) -> str:
    if not 1 <= len(value.encode()) <= MAX_MAPPED_ID_BYTES:
        raise ValueError(f"must be 1 to {MAX_MAPPED_ID_BYTES} bytes of UTF-8")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise ValueError("must not contain control characters")
    return value


MappedId = Annotated[str, AfterValidator(_mapped_id), Field(description="The source's own id of a participant.")]
Mode = Literal["cumulative", "delta"]


class VoteSource(Record):
    """An external source of votes: SMS, a social network, a television show."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["vote_sources"]]})
    ignored: ClassVar[frozenset[str]] = Record.ignored | {"source", "contest_key"}

    title: str | None = Field(None, description="The displayed title; unset: the source's name.")
    is_in_total: bool = Field(True, description="The counts of the contest and participants include its votes.")
    mode: Mode = Field(
        "cumulative",
        description="`cumulative`: reports give the total votes; `delta`: the votes since the previous report.",
    )
    mapping: dict[MappedId, str] = Field(
        {},
        description="Participant keys by the source's own ids. Reports of an unmapped id count once it is mapped.",
    )


class StoredVoteSource(VoteSource):
    """The registration with the server's members. A retired source accepts no reports; its counts remain."""

    retired: bool = Field(False, description="The source accepts no more reports.")
