"""Types of the parameters that many routes have; FastAPI documents them from the handlers' signatures.

Each arrives as text and is parsed by its handler: a missing key (401) is reported before an invalid value (422).
"""

from typing import Annotated, Any, Final

from fastapi import Header, Query
from pydantic import WithJsonSchema

TEXT: Final[dict[str, Any]] = {"type": "string"}
TIME: Final = TEXT | {"format": "date-time"}

IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description="Write only if the record has this ETag."),
    WithJsonSchema(TEXT),
]
IfNoneMatch = Annotated[
    str | None,
    Header(alias="If-None-Match", description="Respond 304 if the record has this ETag."),
    WithJsonSchema(TEXT),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A repeated request takes effect once, for 24 hours; with different content it is refused.",
    ),
    WithJsonSchema(TEXT | {"pattern": "^[!-~]{1,255}$"}),
]
LISTED: Final = 20
"""Records per page by default."""
MOST_LISTED: Final = 100
Limit = Annotated[
    str | int,
    Query(description="Records per page."),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_LISTED}),
]
Next = Annotated[str | None, Query(description="`next` of the previous page."), WithJsonSchema(TEXT)]
