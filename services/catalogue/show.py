"""The show of a contest: what screens show, the release of its result, and links that open screens without key."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.api_examples import CHANGED, EXAMPLES
from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.closing_record import reopened_of, show_in_force
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.contests.wall_links import WallLinks
from libs.catalogue.pagination import ListRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import FROZEN, LINKS, SHOWS
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.contest import CallToVote, Link, Show
from libs.contracts.catalogue_events import ApiKey, ContestRecords, Stored
from libs.contracts.topics import VotesLog
from libs.contracts.validation import Problem, ValidationFailed
from libs.results.contest_counts import read_counts
from libs.results.frozen_counts import freeze
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.vote_views import VoteViews
from libs.web.documents.openapi import UNCHANGED, problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import (
    TIME,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    JsonBody,
    ListPage,
    Permitted,
    Sent,
    TypedRoute,
)
from libs.web.responses import NO_STORE, etag, json_response, precondition_fails
from services.catalogue.openapi import answer
from services.catalogue.routes import fits, write_request

PATH: Final = "/contests/{contest_key}/show"
NEVER: Final = etag("0")
"""Entity tag of a show that was never written."""


class ShownCallToVote(CallToVote):
    """Where the audience votes."""


class ContestShow(Show):
    """The show of a contest."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLES["shows"] | {"contest_key": "c1", "updated": CHANGED["updated"]}]}
    )

    ignored: ClassVar[frozenset[str]] = frozenset()

    contest_key: str = Field(description="Key of the contest.")
    call_to_vote: ShownCallToVote = Field(default_factory=ShownCallToVote, description="Where the audience votes.")
    updated: str | None = Field(
        None, description="Time of the last change; null before the first.", json_schema_extra=TIME
    )


CountsNow = Callable[[str, ContestRecords], Awaitable[Document]]
"""Returns the present counts of an account's contest with these records, as `freeze` keeps them."""


def counts_now(votes: VoteViews, log: VotesLog) -> CountsNow:
    async def counts(account: str, config: ContestRecords) -> Document:
        """Raise `ViewsUnavailable`."""
        contest = contest_of(account, config)
        assert contest is not None, "its show is changed"
        return freeze(contest, sources_of(config), await read_counts(votes, log, contest))

    return counts


def show_router(
    auth: Authenticator, records: RecordService, views: CatalogueViews, counts: CountsNow
) -> APIRouter:
    """Build the routes; a show that is held, or reveals, keeps the `counts` of that moment."""
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]
    Director = Annotated[ApiKey, Depends(Permitted(auth, "show:control"))]
    Form = Annotated[Sent[Show], Depends(JsonBody(Show, SHOWS.body_bytes))]

    async def found(account: str, key: str) -> tuple[ContestRecords, Stored]:
        config = await views.contest_config(account, key)
        if config.contest is None:
            raise NotFound(f"Contest {key} not found.")
        return config, config.contest

    @router.get(
        PATH,
        responses={200: answer(ContestShow, "The show."), **UNCHANGED, **problems("not_found")},
    )
    async def read_show(caller: Reader, contest_key: str, if_none_match: IfNoneMatch = None) -> Response:
        """Read what the screens show of a contest; streams send changes in their `phase` events.

        A reopening of the contest ends its show: the default one holds until it is changed again.
        """
        config, _ = await found(caller.account, contest_key)
        return _answered(config, if_none_match)

    @router.put(
        PATH,
        responses={200: answer(ContestShow, "The new show."), **problems("not_found", "quota_exceeded")},
    )
    async def control_show(caller: Director, sent: Form, contest_key: str, if_match: IfMatch = None) -> Response:
        """Change what the screens show, or release the result.

        The body replaces the show; members left out have their defaults. With `If-Match` two control desks do not
        overwrite each other: read the show again after a 412.
        """
        body = sent.form.stored()
        config, contest = await found(caller.account, contest_key)
        owned: Document = {"reopened": reopened_of(contest.document)}
        if sent.form.state in FROZEN:
            owned["frozen"] = await counts(caller.account, config)
        if if_match is not None and if_match.strip() == NEVER:
            made = await records.create(
                SHOWS, caller.account, body, WriteRequest.once(), parent=contest_key, key=contest_key, owned=owned
            )
            return _answered(replace(config, show=made.stored))
        fit = fits(_condition(config, if_match))
        stored, _ = await records.put(
            SHOWS, caller.account, contest_key, body, parent=contest_key, fits=fit, owned=owned
        )
        return _answered(replace(config, show=stored))

    return router


def _answered(config: ContestRecords, if_none_match: str | None = None) -> Response:
    assert config.contest is not None
    document = show_in_force(config)
    public = {name: value for name, value in document.items() if name not in Show.owned}
    updated = config.show.times["updated"] if document and config.show is not None else None
    show = ContestShow.model_validate({"contest_key": config.contest.key, "updated": updated} | public)
    return json_response(show.shown(), 200, {"ETag": _tag(config)}, if_none_match=if_none_match)


def _tag(config: ContestRecords) -> str:
    """Return the entity tag of the show, which a reopening of the contest changes, too."""
    if config.contest is None or config.show is None:
        return NEVER
    updated = config.show.updated
    return etag(updated if show_in_force(config) else f"{updated}-{reopened_of(config.contest.document)}")


def _condition(config: ContestRecords, if_match: str | None) -> str | None:
    """Return the `If-Match` that the stored show must fit."""
    if if_match is None or config.show is None or show_in_force(config):
        return if_match
    return NEVER if precondition_fails(if_match, _tag(config)) else etag(config.show.updated)


ALL: Final = "/contests/{contest_key}/links"
MOST_LINKS: Final = 100
"""Links of a contest."""
LONGEST: Final = timedelta(days=366)


class ContestLink(Link):
    """A link that opens the screens of a contest: they show what its show allows, and nothing else."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLES["links"]
                | {"key": "l1", "contest_key": "c1", "url": "https://tally.example/dashboard/link#l1"}
                | {"created": CHANGED["created"], "expires": CHANGED["updated"]}
            ],
        }
    )

    ignored: ClassVar[frozenset[str]] = frozenset()

    key: str = Field(description="Key of the link.")
    contest_key: str = Field(description="Key of the contest.")
    url: str = Field(description="The address to open: whoever has it sees what the screens show.")
    expires: str = Field(  # type: ignore[assignment]
        description="The link opens nothing from then on.", json_schema_extra=TIME
    )
    created: str = Field(description="Time of creation.", json_schema_extra=TIME)


LinkKey = Annotated[str, Path(description="Key of the link.")]


def link_router(auth: Authenticator, records: RecordService, links: WallLinks, public_url: str) -> APIRouter:
    """Build the routes; all need the permission show:control."""
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Director = Annotated[ApiKey, Depends(Permitted(auth, "show:control"))]
    Form = Annotated[Sent[Link], Depends(JsonBody(Link, LINKS.body_bytes))]

    async def shown(request: Request, stored: Stored) -> dict[str, Any]:
        origin = public_url or str(request.base_url).rstrip("/")
        token = await links.token(stored.key)
        record = ContestLink.model_validate(
            stored.document
            | {
                "key": stored.key,
                "contest_key": stored.parent,
                "created": stored.times["created"],
                "url": f"{origin}/dashboard/contests/{stored.parent}/wall#link={token}",
            }
        )
        return record.shown()

    async def all_links(account: str, contest: str) -> list[Stored]:
        page = await records.page(LINKS, account, ListRequest(limit=MOST_LINKS), contest)
        return page.records

    @router.post(
        ALL,
        status_code=201,
        response_model=ContestLink,
        responses=problems("not_found", "views_unavailable", "quota_exceeded"),
    )
    async def create_link(
        request: Request, caller: Director, sent: Form, contest_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Create a link that opens the screens of the contest without an API key.

        It is valid until it expires or is revoked, also after the key that made it was revoked.
        """
        now, expires = datetime.now(UTC), sent.form.expires
        if expires is not None and not now < expires <= now + LONGEST:
            raise ValidationFailed([Problem("/expires", "must be in the future, and within a year")])
        if len(await all_links(caller.account, contest_key)) >= MOST_LINKS:
            raise ValidationFailed([Problem("", f"a contest has at most {MOST_LINKS} links: delete one first")])
        write = write_request(caller.account, request, idempotency_key, sent.content)
        made = await records.create(LINKS, caller.account, sent.form.stored(), write, parent=contest_key)
        return json_response(await shown(request, made.stored), 201, NO_STORE)

    @router.get(ALL, response_model=ListPage[ContestLink], responses=problems("not_found", "views_unavailable"))
    async def list_links(request: Request, caller: Director, contest_key: str) -> Response:
        """List the links of the contest, newest first, also those that have ended."""
        found = [await shown(request, stored) for stored in await all_links(caller.account, contest_key)]
        return json_response({"data": found, "next": None}, 200, NO_STORE)

    @router.delete(ALL + "/{link_key}", status_code=204, responses=problems("not_found"))
    async def revoke_link(caller: Director, contest_key: str, link_key: LinkKey) -> Response:
        """Revoke a link: screens that it opened show nothing more within seconds."""
        stored = await records.get(LINKS, caller.account, link_key)
        if stored.parent != contest_key:
            raise NotFound(f"The contest has no link {link_key}.")
        await records.delete(LINKS, caller.account, link_key)
        return Response(status_code=204)

    return router
