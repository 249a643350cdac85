"""Response models of API keys."""

from typing import Any

from pydantic import BaseModel, Field

TIME: dict[str, Any] = {"format": "date-time"}


class KeyRecord(BaseModel):
    """An API key without its text."""

    key_id: str = Field(description="The key's id, a part of its text.", examples=["5f0c9a4e8b7d6c21"])
    name: str = Field(description="A label.")
    permissions: list[str] = Field(description="What the key may do.", examples=[["content:read", "votes:write"]])
    expires: str | None = Field(description="The key is refused from then on.", json_schema_extra=TIME)
    networks: list[str] = Field(
        description="Networks that may use the key; none: all.", examples=[["192.0.2.0/24"]]
    )
    rate: int | None = Field(description="Requests per second; 0: no limit; null: the deployment's limit.")
    parent: str | None = Field(
        description="Id of the key that made it, which may be revoked; null: an operator made it. Requests count "
        "towards the rate of the parent, too."
    )
    created: str = Field(description="Time of creation.", json_schema_extra=TIME)
    last_used: str | None = Field(
        description="Minute of the last use, up to half a minute late; null: never, or not known.",
        json_schema_extra=TIME,
    )


class CreatedKey(KeyRecord):
    """A new API key."""

    api_key: str | None = Field(
        description="The key's text, in the first response only; null in the response to a repeated request.",
        examples=["tk_5f0c9a4e8b7d6c21_..."],
    )


class KeyPage(BaseModel):
    """A page of keys."""

    data: list[KeyRecord] = Field(description="Newest first.")
    has_more: bool = Field(description="Whether there is another page.")
    next: str | None = Field(description="Send it as `?next=` to read the next page.")
