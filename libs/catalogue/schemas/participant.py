"""A participant of a contest."""

from typing import ClassVar

from pydantic import Field

from libs.catalogue.schemas.base import FreeForm, Members, Record
from libs.catalogue.schemas.contest import Status


class User(Members):
    """Whose entry the participant is."""

    user_id: str | None = None
    user_name: str | None = None
    image_id: str | None = None


class Participant(Record):
    """What one votes for in a contest. Only approved ones take votes and appear in results."""

    ignored: ClassVar[frozenset[str]] = Record.ignored | {
        "participant_key",
        "contest_key",
        "contest_id",
        "running_number",
        "participated",
        "image",
        "vote_count",
        "rater_count",
        "message_count",
    }

    title: str | None = None
    story: str | None = None
    image_key: str | None = None
    status: Status = Field("approved", description="New ones take the contest's `participant_default_status`.")
    number_string: str | None = None
    data: FreeForm = Field({}, description="Free-form.")
    user: User | None = None
