"""Schema of a participant of a contest."""

from typing import ClassVar

from pydantic import Field

from libs.catalogue.schemas.base import Description, FreeForm, Members, Record, Title
from libs.catalogue.schemas.contest import Status


class User(Members):
    """The user who entered the participant."""

    user_id: str | None = Field(None, description="Id chosen by the account; not checked.")
    user_name: str | None = Field(None, description="The displayed name.")
    image_id: str | None = Field(None, description="Key of the user's image; not checked.")


class Participant(Record):
    """A participant of a contest. Only approved participants receive votes and appear in results."""

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

    title: Title = None
    story: Description = None
    image_key: str | None = Field(None, description="Key of an image.")
    status: Status = Field("approved", description="Default: the contest's `participant_default_status`.")
    number_string: str | None = Field(None, description="The displayed number, such as a jersey's.")
    data: FreeForm = Field({}, description="Free-form.")
    user: User | None = Field(None, description="The user who entered the participant.")
