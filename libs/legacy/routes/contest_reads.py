"""Routes of contests and participants with their counts, which the query service serves."""

from typing import Final

from fastapi import APIRouter

from libs.catalogue.resource_definition import Document
from libs.legacy.contest_reads import LegacyReads
from libs.legacy.parameters.contests import SHAPE as CONTEST
from libs.legacy.parameters.participants import SHAPE as PARTICIPANT
from libs.legacy.parameters.read_shapes import page
from libs.legacy.routes.route_builder import NEXT, Call, LegacyRoutes

QUERY: Final = {"next": NEXT}


def contest_reads_router(base: str, reads: LegacyReads) -> APIRouter:
    """Return the reads of one environment under `base`."""
    routes = LegacyRoutes(base, reads.auth, reads.catalogue)

    async def get_contest(call: Call) -> Document:
        """Includes its counts and approved participants."""
        return await reads.contest(call.key, call.path("contest_id"))

    async def list_contests(call: Call) -> Document:
        """The brand's contests, 20 a page, newest first, except those with `contest_visibility` `not_listed`."""
        return await reads.contests(call.key, call.path("brand_id"), call.query("next"))

    async def list_participants(call: Call) -> Document:
        """The contest's participants of every status, 20 a page, newest first."""
        return await reads.participants(call.key, call.path("contest_id"), call.query("next"))

    async def get_participant(call: Call) -> Document:
        """Includes its counts."""
        return await reads.participant(call.key, call.path("participant_key"))

    contests, participants = page("contests", CONTEST), page("participants", PARTICIPANT)
    routes.add("GET", "/contests/{contest_id}", get_contest, shape=CONTEST)
    routes.add("GET", "/brands/{brand_id}/contests", list_contests, query=QUERY, shape=contests)
    routes.add("GET", "/contests/{contest_id}/participants", list_participants, query=QUERY, shape=participants)
    routes.add("GET", "/participants/{participant_key}", get_participant, shape=PARTICIPANT)
    return routes.router
