"""External vote sources of contests: registration, reads, retirement, and their routes."""

from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.api_examples import CHANGED, EXAMPLES
from libs.catalogue.contests.vote_sources import source_key, source_name, source_of
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Fits
from libs.catalogue.resource_table import VOTE_SOURCES
from libs.catalogue.schemas.contest import SOURCE_NAME, VoteSource
from libs.contracts.catalogue_events import ApiKey, ContestRecords, Stored
from libs.contracts.validation import Problem, ValidationFailed, pointer
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import UNCHANGED, problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import TIME, IfMatch, IfNoneMatch, JsonBody, ListPage, Permitted, Sent, TypedRoute
from libs.web.responses import etag, json_response
from services.catalogue.openapi import answer
from services.catalogue.routes import fits

MOST_SOURCES: Final = 100
"""Vote sources of a contest, also retired ones, since their counts stay: each read of the counts returns all."""


class VoteSources:
    """Vote sources of one environment; reads exclude retired ones."""

    def __init__(self, record_service: RecordService, views: CatalogueViews) -> None:
        self._record_service = record_service
        self._views = views

    async def put(
        self, account: str, contest: str, source: str, form: VoteSource, fits: Fits | None
    ) -> tuple[Stored, bool]:
        """Register a source, or replace its registration; True if it is new or was retired.

        Raises `NotFound`, `VersionConflict`, and `ValidationFailed` for a reserved name, a mapping to a
        participant that the contest does not have, or one source too many.
        """
        if not SOURCE_NAME.fullmatch(source):
            message = "a source's name is 1 to 64 of A-Z a-z 0-9 _ . -, not . or .., and does not begin with c-"
            raise ValidationFailed([Problem("", message)])
        config = await self._config(account, contest)
        known = {stored.key for stored in config.participants}
        registered = next((each for each in config.sources if source_name(each) == source), None)
        if registered is None and len(config.sources) >= MOST_SOURCES:
            message = f"a contest can have at most {MOST_SOURCES} vote sources, retired ones included"
            raise ValidationFailed([Problem("", message)])
        if registered is not None:
            known.update(source_of(registered).mapping.values())  # deleted participants may stay in the mapping
        strangers = [(mapped, key) for mapped, key in form.mapping.items() if key not in known]
        if strangers:
            raise ValidationFailed(
                Problem(pointer("mapping", mapped), f"the contest has no participant {key}")
                for mapped, key in strangers
            )
        key = source_key(contest, source)
        stored, before = await self._record_service.put(
            VOTE_SOURCES, account, key, form.stored(), parent=contest, fits=_in_use(fits)
        )
        return stored, before is None or source_of(before).retired

    async def get(self, account: str, contest: str, source: str) -> Stored:
        """Return the registration. Raises `NotFound`."""
        for stored in await self.all(account, contest):
            if source_name(stored) == source:
                return stored
        raise NotFound(f"The contest has no vote source {source}.")

    async def all(self, account: str, contest: str) -> list[Stored]:
        """Return the registrations in the order of their first registration. Raises `NotFound`."""
        sources = (await self._config(account, contest)).sources
        return [stored for stored in sources if not source_of(stored).retired]

    async def retire(self, account: str, contest: str, source: str, fits: Fits | None) -> None:
        """Retire the source: reports are refused, its counts stay. Raises `NotFound`, `VersionConflict`."""
        stored = await self.get(account, contest, source)
        await self._record_service.patch(VOTE_SOURCES, account, stored.key, {"retired": True}, _in_use(fits))

    async def _config(self, account: str, contest: str) -> ContestRecords:
        config = await self._views.contest_config(account, contest)
        if config.contest is None:
            raise NotFound(f"Contest {contest} not found.")
        return config


def _in_use(fits: Fits | None) -> Fits | None:
    return None if fits is None else lambda stored: not source_of(stored).retired and fits(stored)


SourceName = Annotated[str, Path(json_schema_extra={"pattern": f"^{SOURCE_NAME.pattern}$"})]
ALL: Final = "/contests/{contest_key}/vote_sources"
ONE: Final = ALL + "/{source}"


class Registration(VoteSource):
    """The registration of an external source with a contest."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [EXAMPLES["vote_sources"] | {"source": "sms", "contest_key": "c1"} | CHANGED],
        }
    )

    ignored: ClassVar[frozenset[str]] = frozenset()

    source: str = Field(description="Name of the source, unique within the contest.")
    contest_key: str = Field(description="Key of the contest.")
    title: str = Field(description="The displayed title.")
    created: str = Field(description="Time of registration.", json_schema_extra=TIME)
    updated: str = Field(description="Time of the last change.", json_schema_extra=TIME)


def vote_source_router(auth: Authenticator, sources: VoteSources) -> APIRouter:
    """Build the routes; all need the permission sources:write."""
    router = APIRouter(tags=["vote sources"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "sources:write"))]
    Form = Annotated[Sent[VoteSource], Depends(JsonBody(VoteSource, VOTE_SOURCES.body_bytes))]

    @router.put(
        ONE,
        responses={
            200: answer(Registration, "Changed."),
            201: answer(Registration, "Registered, also again after it was retired."),
            **problems("not_found", "quota_exceeded"),
        },
    )
    async def register_vote_source(
        caller: Caller, sent: Form, contest_key: str, source: SourceName, if_match: IfMatch = None
    ) -> Response:
        """Register an external source, or change its registration.

        The body replaces the registration; members left out have their defaults. The mapping applies at once to
        all reports, earlier ones included: counts of an unmapped id are held until it is mapped, and a changed
        mapping moves its counts. While the contest is closed, its result keeps the mapping at the closing.

        A source's name is 1 to 64 of A-Z a-z 0-9 _ . -, not . or .., and does not begin with `c-`.
        """
        stored, is_new = await sources.put(caller.account, contest_key, source, sent.form, fits(if_match))
        location = {"Location": f"/contests/{contest_key}/vote_sources/{source}"} if is_new else {}
        return json_response(_shown(stored).shown(), 201 if is_new else 200, location | _tag(stored))

    @router.get(
        ONE,
        responses={200: answer(Registration, "The registration."), **UNCHANGED, **problems("not_found")},
    )
    async def read_vote_source(
        caller: Caller, contest_key: str, source: SourceName, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Read the registration of an external source."""
        stored = await sources.get(caller.account, contest_key, source)
        return json_response(_shown(stored).shown(), 200, _tag(stored), if_none_match=if_none_match)

    @router.delete(
        ONE,
        status_code=204,
        responses={
            204: {"description": "Retired: reports are refused; its counts stay."},
            **problems("not_found"),
        },
    )
    async def retire_vote_source(
        caller: Caller, contest_key: str, source: SourceName, if_match: IfMatch = None
    ) -> Response:
        """Retire an external source.

        Its counts stay, by its current mapping. PUT registers it again.
        """
        await sources.retire(caller.account, contest_key, source, fits(if_match))
        return Response(status_code=204)

    @router.get(ALL, responses=problems("not_found"))
    async def list_vote_sources(caller: Caller, contest_key: str) -> ListPage[Registration]:
        """List the external sources of a contest in use, in the order in which they were first registered."""
        found = await sources.all(caller.account, contest_key)
        return ListPage(data=[_shown(stored) for stored in found], has_more=False, next=None)

    return router


def _shown(stored: Stored) -> Registration:
    config, names = source_of(stored), {"source": source_name(stored), "contest_key": stored.parent}
    members = {name: getattr(config, name) for name in VoteSource.model_fields}
    return Registration.model_validate(names | members | stored.times)


def _tag(stored: Stored) -> dict[str, str]:
    return {"ETag": etag(stored.updated)}
