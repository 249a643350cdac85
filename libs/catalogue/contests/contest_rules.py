"""Rules of contests' and participants' records."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from libs.catalogue.contests.closing_record import phase_of
from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.contests.corrections import SET_BY
from libs.catalogue.contests.seals import is_sealed
from libs.catalogue.contests.visibility import LOOSENING, opens_sooner, shows_more
from libs.catalogue.errors import HasVotes, StatusTransition
from libs.catalogue.resource_definition import JudgedBy, Resource, Target
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.contest import Contest
from libs.contracts.catalogue_events import Stored
from libs.contracts.log_records import CURRENT
from libs.contracts.validation import Problem, ValidationFailed
from libs.contracts.visible_text import visible_length
from libs.tally.contest import finish
from libs.tally.errors import ContestFinal
from libs.tally.time_conversion import microseconds, timestamp
from libs.web.errors import Forbidden

LONG_AGO: Final = 0


class TitledResource(Resource):
    """Records that audiences identify by title."""

    def problems(self, body: Any, before: Document | None) -> Iterator[Problem]:
        """Yield a problem for a new title without a visible character; one stored earlier may be sent back."""
        title = body.get("title") if isinstance(body, dict) else None
        is_blank = isinstance(title, str) and not visible_length(title)
        if is_blank and (before is None or before.get("title") != title):
            yield Problem("/title", "must have a visible character")

    def complete(self, document: Document, target: Target) -> None:
        """Set when, and by whom, the members were set that this write changes."""
        if target.before is None:
            return
        before, actor = target.before.document, CURRENT.get()
        change = {"at": target.at, "by": "" if actor is None else f"{actor.kind} {actor.name}"}
        for member, name in SET_BY.items():
            if name in self.schema.owned and before.get(member) != document.get(member):
                document[name] = change


class ContestResource(TitledResource):
    """Contests: closed ones keep what their results depend on."""

    def complete(self, document: Document, target: Target) -> None:
        """Set the votes topic of a new contest, unless that is the first one."""
        super().complete(document, target)
        if target.before is None and target.votes is not None and (first := target.votes.topic_of_new().first):
            document["votes_from"] = first

    def judge(self, before: Document, after: Document) -> None:
        """Raise `ContestFinal` if the change would move a closed contest's end or change its result."""
        if "closing" in before and _result(before) != _result(after):
            raise ContestFinal(
                "The contest is closed: its start, end, type and rating scale cannot change unless it is reopened."
            )

    async def judge_by_votes(
        self, before: Stored, after: Document, permissions: Collection[str] | None, votes: ContestVotes
    ) -> None:
        """Raise `HasVotes` if the type changes after votes were cast, and `Forbidden` if more is to be seen than
        `permissions` suffice for: of an end that is brought forward, if there are votes to see.
        """
        if _type(before.document) != _type(after) and await votes.were_cast(before):
            raise HasVotes("The contest has votes, so its contest_type cannot change; create another contest.")
        if permissions is None or not set(LOOSENING).isdisjoint(permissions):
            return
        if shows_more(before.document, after) or (
            opens_sooner(before.document, after) and await votes.were_cast(before)
        ):
            raise Forbidden(*LOOSENING)

    async def judge_deletion(self, account: str, stored: Stored, votes: ContestVotes | None) -> JudgedBy:
        """Raise `ContestFinal` if the contest is sealed: others rely on its certificate."""
        if is_sealed(stored.document):
            raise ContestFinal("The contest is sealed: unseal it first (`tally unseal`), then delete it.")
        return JudgedBy(version=stored.version)

    def due(self, document: Document) -> int | None:
        """Return the contest's end (us), or an earlier time if it was closed before."""
        if "closing" in document or "reopened" in document:
            return LONG_AGO
        record = Contest.model_validate(document)
        moments = record.publish, record.contest_config.start, record.contest_config.end
        return finish(*(None if moment is None else microseconds(moment) for moment in moments))

    def computed(self, stored: Stored, now: int) -> Document:
        return {"phase": phase_of(stored.document, now)}


class ParticipantResource(TitledResource):
    """Participants: votes of a closed contest keep theirs."""

    def complete(self, document: Document, target: Target) -> None:
        """Set the status of a new participant to its contest's default."""
        super().complete(document, target)
        if target.before is None and target.above is not None:
            config = target.above.document.get("contest_config", {})
            document.setdefault("status", config.get("participant_default_status", "approved"))

    def judge(self, before: Document, after: Document) -> None:
        """Raise `ValidationFailed` if the status is cleared, `StatusTransition` if it returns to pending."""
        if "status" in before and "status" not in after:
            problem = Problem("/status", "must be approved, pending or rejected: it cannot be cleared")
            raise ValidationFailed([problem])
        old, new = before.get("status", "approved"), after.get("status", "approved")
        if new == "pending" and old != "pending":
            raise StatusTransition(f"The status of a participant cannot change from {old} to pending.", status=old)

    async def judge_deletion(self, account: str, stored: Stored, votes: ContestVotes | None) -> JudgedBy:
        """Raise `NotFound` without its contest, `ContestFinal` if it has votes there after the closing, and
        `ViewsUnavailable` while the contest is closing.
        """
        if votes is None:
            return JudgedBy()
        contest = await votes.contest_of(account, stored)
        if await votes.count_at_closing(contest, stored.key):
            raise ContestFinal(f"Participant {stored.key} has votes in a closed contest; reopen it first.")
        return JudgedBy(parent=contest.version)

    def computed(self, stored: Stored, now: int) -> Document:
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
            "waits_for_reopening": None,
        }


def _result(document: Document) -> tuple[Any, ...]:
    rules = document.get("contest_config", {})
    scale = [item.get("sub_rating_id") for item in (rules.get("rating") or {}).get("sub_rating_configs", ())]
    return rules.get("start"), rules.get("end"), _type(document), scale


def _type(document: Document) -> str:
    contest_type: str = document.get("contest_type", "voteonly")
    return contest_type
