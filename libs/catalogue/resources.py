"""The table of resources. To add one: write its schema in `schemas/`, and a row here.

Routes, documentation, lists, references and cascades derive from the row; `table.py` says what its members mean.
"""

from typing import Final

from libs.catalogue import closing
from libs.catalogue.errors import StatusTransition
from libs.catalogue.schemas.contest import Contest
from libs.catalogue.schemas.participant import Participant
from libs.catalogue.schemas.vote_source import StoredVoteSource
from libs.catalogue.table import Document, Reference, Resource, Table
from libs.contracts.catalogue import Stored
from libs.tally.errors import timestamp


def _default_status(document: Document, contest: Document) -> None:
    default = contest.get("contest_config", {}).get("participant_default_status", "approved")
    document.setdefault("status", default)


def _judge_status(before: Document, after: Document) -> None:
    old, new = before.get("status", "approved"), after.get("status", "approved")
    if new == "pending" and old != "pending":
        raise StatusTransition(f"A participant that is {old} cannot go back to pending.", status=old)


def _computed_of_participant(stored: Stored) -> Document:
    image_key = stored.document.get("image_key")
    return {
        "participant_key": stored.key,
        "contest_key": stored.parent,
        "contest_id": stored.parent,
        "running_number": stored.number,
        "participated": timestamp(stored.created),
        "image": {"key": image_key} if image_key else {},
        "vote_count": None,
        "rater_count": None,
        "message_count": 0,
    }


CONTESTS: Final = Resource(
    name="contests",
    singular="contest",
    schema=Contest,
    example={
        "title": "Song of the year",
        "contest_type": "voteonly",
        "publish": "2026-05-01T18:00:00.000000Z",
        "contest_config": {
            "start": "2026-05-01T18:00:00.000000Z",
            "end": "2026-05-01T20:00:00.000000Z",
            "free": {"max_contest": 3, "max_participant": 1},
            "vote_visibility": "hidden_until_end",
        },
    },
    contest="self",
    due=closing.due,
    references=(Reference("/shop/key", "shops"), Reference("/image/key", "images")),
    judge=closing.judge_change,
    refusals={"PATCH": ("contest_final",)},
)

PARTICIPANTS: Final = Resource(
    name="participants",
    singular="participant",
    schema=Participant,
    example={"title": "The Examples", "story": "Four friends from Berlin.", "number_string": "A1"},
    parent="contests",
    contest="parent",
    references=(Reference("/image_key", "images"),),
    complete=_default_status,
    judge=_judge_status,
    refusals={"PATCH": ("status_transition",), "DELETE": ("contest_final",)},
    computed=_computed_of_participant,
    computed_members={
        "participant_key": {"type": "string", "description": "The same as `key`."},
        "contest_key": {"type": "string"},
        "contest_id": {"type": "string", "description": "The same as `contest_key`."},
        "running_number": {"type": "integer", "description": "Counts up within the contest, from 1."},
        "participated": {"type": "string", "format": "date-time"},
        "image": {"type": "object"},
        "vote_count": {
            "type": ["integer", "null"],
            "description": "0 of one that is not approved; null while hidden, and to keys without results:read.",
        },
        "rater_count": {"type": ["integer", "null"], "description": "Distinct voters; null as `vote_count`."},
        "message_count": {"type": "integer"},
    },
)

VOTE_SOURCES: Final = Resource(
    name="vote_sources",
    singular="vote_source",
    schema=StoredVoteSource,
    example={"title": "Text messages", "mode": "cumulative", "mapping": {"A": "5f0c7d1e2b3a49586776a5b4"}},
    parent="contests",
    contest="parent",
    has_routes=False,
)


RESOURCES: Final = Table(CONTESTS, PARTICIPANTS, VOTE_SOURCES)
