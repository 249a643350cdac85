"""Judges changes of what may be seen of a contest's counts: showing more takes more than `content:write`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, get_args

from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.contest import ContestConfig, ResultRelease, VoteVisibility

MORE_VISIBLE_FIRST: Final[Sequence[str]] = get_args(VoteVisibility)
EARLIER_FIRST: Final[Sequence[str]] = get_args(ResultRelease)
LOOSENING: Final = ("show:control", "results:read_hidden")
"""Permissions of which a key needs one to show more: who has it may reveal the counts, or knows them already."""


class _Visibility(NamedTuple):
    """What may be seen of a contest's counts. `is_by_end`: from `end` on, and not before."""

    votes: int
    release: int
    is_by_end: bool
    end: datetime | None


def shows_more(before: Document, after: Document) -> bool:
    """Return whether the changed document shows counts that the former one hides at the same time.

    `participant_visibility` and `limit_result_amount` are not judged: what they leave out of public results they
    do not hide from keys that read results.
    """
    old, new = _visibility_of(before), _visibility_of(after)
    return new.votes < old.votes or new.release < old.release


def opens_sooner(before: Document, after: Document) -> bool:
    """Return whether counts that are hidden until the end open sooner, because the end is brought forward.

    Without this, their state could be read in the middle, by ending the contest and reopening it.
    """
    old, new = _visibility_of(before), _visibility_of(after)
    return old.is_by_end and new.is_by_end and new.end is not None and (old.end is None or new.end < old.end)


def _visibility_of(document: Document) -> _Visibility:
    config = ContestConfig.model_validate(document.get("contest_config") or {})
    visibility, release = config.vote_visibility, config.result_release
    return _Visibility(
        MORE_VISIBLE_FIRST.index(visibility),
        EARLIER_FIRST.index(release),
        visibility.startswith("hidden_until_") and release == "at_end",
        config.end,
    )
