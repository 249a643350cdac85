"""Links that open the screens of a contest without an API key: creation, list and revocation."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field
from starlette.responses import Response

from libs.catalogue.contests.wall_links import WallLinks
from libs.catalogue.pagination import ListRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import LINKS
from libs.catalogue.schemas.contest import Link
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import NotFound
from libs.web.documents.openapi import problems
from libs.web.door.auth import ApiKey, Authenticator
from libs.web.door.typed_routes import TIME, IdempotencyKey, JsonBody, ListPage, Permitted, Sent, TypedRoute
from libs.web.responses import NO_STORE, json_response
from services.catalogue.routes import write_request

ALL: Final = "/contests/{contest_key}/links"
MOST_LINKS: Final = 100
"""Links of a contest."""
LONGEST: Final = timedelta(days=366)


class ContestLink(Link):
    """A link that opens the screens of a contest: they show what its show allows, and nothing else."""

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
    Form = Annotated[Sent[Link], Depends(JsonBody(Link))]

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
        responses=problems("not_found", "views_unavailable"),
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
