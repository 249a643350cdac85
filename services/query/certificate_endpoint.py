"""`GET /contests/<key>/certificate`: the certificate of a sealed contest."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from libs.catalogue.contests.closing_record import seal_of
from libs.certificates.service import load
from libs.contracts.catalogue_events import ApiKey
from libs.storage.object_store import Store
from libs.tally.errors import NotFound
from libs.web.documents.openapi import problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import Permitted, TypedRoute
from services.query.snapshot_cache import SnapshotCache


def certificate_router(auth: Authenticator, snapshots: SnapshotCache, store: Store) -> APIRouter:
    """Build the route of the stored certificate, for keys that may see the counts in it."""
    router = APIRouter(tags=["results"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]
    described = {
        "description": "The certificate.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }

    @router.get(
        "/contests/{contest_key}/certificate",
        response_class=Response,
        responses={200: described, **problems("results_hidden", "not_found")},
        summary="Download a contest's certificate",
    )
    async def get_certificate(caller: Reader, contest_key: str) -> Response:
        """Returns the certificate of a sealed contest, for `tally certificate verify`.

        It contains the final counts: if these are hidden, `results:read_hidden` is also needed.
        """
        snapshot = await snapshots.get(caller.account, contest_key)
        snapshot.check_visible(caller.permissions)
        seal = seal_of(snapshot.stored.document)
        certificate = None if seal is None else await load(store, contest_key, seal.seq)
        if seal is None or certificate is None:
            raise NotFound("The contest is not sealed: `tally seal` creates its certificate.")
        headers = {
            "Content-Disposition": f'attachment; filename="certificate-{seal.sha256[:12]}.json"',
            "Cache-Control": "private, no-cache",
        }
        return Response(certificate.canonical(), 200, headers, "application/json")

    return router
