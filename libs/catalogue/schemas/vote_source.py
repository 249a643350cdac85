"""The registration of an external vote source with a contest: its title, and whom its figures are for."""

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from libs.catalogue.examples import EXAMPLES
from libs.catalogue.schemas.base import Record

SOURCE_NAME: Final = re.compile(r"(?!c-|\.{1,2}$)[A-Za-z0-9_.-]{1,64}")
"""Names that begin with `c-` are reserved for internal sources; clients resolve . and .. in an address."""
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

    title: str | None = Field(None, description="The source's name, while unset.")
    is_in_total: bool = Field(
        True, description="Whether its votes are part of the contest's and participants' counts."
    )
    mode: Mode = Field(
        "cumulative",
        description="Whether its reports say how many votes there are, or how many came since the last.",
    )
    mapping: dict[MappedId, str] = Field(
        {},
        description="The participant's key by the source's own id. What an id reported is held until it is here.",
    )


class StoredVoteSource(VoteSource):
    """With what the server keeps of it. A retired source takes no reports; what it counted stays."""

    retired: bool = Field(False, description="Takes no reports any more.")
