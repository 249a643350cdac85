"""Parameters that many routes have, and the page of a list; FastAPI parses and documents them."""

from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Header, Query
from pydantic import BaseModel, Field

from libs.contracts.validation import explained

T = TypeVar("T")
TIME: Final[dict[str, Any]] = {"format": "date-time"}

IfMatch = Annotated[str | None, Header(alias="If-Match", description="Write only if the record has this ETag.")]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="Respond 304 if the record has this ETag.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=explained("^[!-~]{1,255}$", "must be 1 to 255 visible ASCII characters"),
        description="A repeated request takes effect once, for 24 hours; with different content it is refused.",
    ),
]
LISTED: Final = 20
"""Records per page by default."""
Limit = Annotated[int, Query(ge=1, le=100, description="Records per page.")]
Next = Annotated[str | None, Query(description="`next` of the previous page.")]


class ListPage(BaseModel, Generic[T]):
    """A page of a list."""

    data: list[T] = Field(description="The page, in the order of the list.")
    has_more: bool = Field(description="Whether there is another page.")
    next: str | None = Field(description="Send it as `?next=` to read the next page.")
