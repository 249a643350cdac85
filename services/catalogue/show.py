"""The show of a contest: what its screens show, and the release of its result."""

from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from libs.catalogue.commands import WriteRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import SHOWS
from libs.catalogue.schemas.contest import CallToVote, Show
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import UNCHANGED, problems
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.common_parameters import TIME, IfMatch, IfNoneMatch
from libs.web.door.typed_routes import JsonBody, Permitted, Sent, TypedRoute
from libs.web.responses import etag, json_response
from services.catalogue.openapi import answer
from services.catalogue.routes import fits

PATH: Final = "/contests/{contest_key}/show"
NEVER: Final = etag("0")
"""Entity tag of a show that was never written."""


class ShownCallToVote(CallToVote):
    """Where the audience votes."""


class ContestShow(Show):
    """The show of a contest."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    contest_key: str = Field(description="Key of the contest.")
    call_to_vote: ShownCallToVote = Field(default_factory=ShownCallToVote, description="Where the audience votes.")
    updated: str | None = Field(
        None, description="Time of the last change; null before the first.", json_schema_extra=TIME
    )


def show_router(auth: Authenticator, records: RecordService, views: CatalogueViews) -> APIRouter:
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]
    Director = Annotated[ApiKey, Depends(Permitted(auth, "show:control"))]
    Form = Annotated[Sent[Show], Depends(JsonBody(Show))]

    @router.get(
        PATH,
        response_class=Response,
        responses={200: answer(ContestShow, "The show."), **UNCHANGED, **problems("not_found")},
    )
    async def read_show(caller: Reader, contest_key: str, if_none_match: IfNoneMatch = None) -> Response:
        """Read what the screens show of a contest; streams send changes in their `phase` events."""
        config = await views.contest_config(caller.account, contest_key)
        if config.contest is None:
            raise NotFound(f"Contest {contest_key} not found.")
        return _answered(contest_key, config.show, if_none_match)

    @router.put(
        PATH,
        response_class=Response,
        responses={200: answer(ContestShow, "The new show."), **problems("not_found")},
    )
    async def control_show(caller: Director, sent: Form, contest_key: str, if_match: IfMatch = None) -> Response:
        """Change what the screens show, or release the result.

        The body replaces the show; members left out have their defaults. With `If-Match` two control desks do not
        overwrite each other: read the show again after a 412.
        """
        body = sent.form.stored()
        if if_match is not None and if_match.strip() == NEVER:
            made = await records.create(
                SHOWS, caller.account, body, WriteRequest.once(), parent=contest_key, key=contest_key
            )
            return _answered(contest_key, made.stored)
        stored, _ = await records.put(
            SHOWS, caller.account, contest_key, body, parent=contest_key, fits=fits(if_match)
        )
        return _answered(contest_key, stored)

    return router


def _answered(contest: str, stored: Stored | None, if_none_match: str | None = None) -> Response:
    tag = NEVER if stored is None else etag(stored.updated)
    document, updated = ({}, None) if stored is None else (stored.document, stored.times["updated"])
    show = ContestShow.model_validate({"contest_key": contest, "updated": updated} | document)
    return json_response(show.shown(), 200, {"ETag": tag}, if_none_match=if_none_match)
