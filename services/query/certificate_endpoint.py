"""`GET /contests/<key>/certificate`: the certificate of a sealed contest."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from libs.catalogue.contests.seals import seal_of
from libs.certificates.service import load
from libs.contracts.catalogue_events import ApiKey
from libs.contracts.certificates import FORMAT, Certificate
from libs.storage.object_store import Store
from libs.tally.errors import NotFound
from libs.web.documents.openapi import COMPONENT, Schema, problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import Permitted, TypedRoute
from services.query.snapshot_cache import SnapshotCache

DESCRIPTIONS: Final = {
    "format": "Version of the format.",
    "contest_key": "Key of the contest.",
    "title": "The contest's title at the closing.",
    "participants": "Participants at the closing, in running order.",
    "seq": "Number of the closing.",
    "end": "End of the contest, in microseconds since 1970 UTC.",
    "decision": "Position of the closing in the catalogue's log.",
    "sources": "External sources as registered at the closing.",
    "partitions": "Close markers and Merkle roots of the votes log's partitions.",
    "result": "The final result, and that of each participant.",
    "sha256": "SHA-256 of the other members in canonical form.",
}
TYPES: Final[Schema] = {
    "format": {"const": FORMAT, "type": "integer"},
    **{name: {"type": "integer"} for name in ("seq", "end")},
    **{name: {"type": "array", "items": {"type": "object"}} for name in ("participants", "sources", "partitions")},
    **{name: {"type": "object"} for name in ("decision", "result")},
}
CERTIFICATE: Final[Schema] = {
    COMPONENT: "schemas/Certificate",
    "description": "The certificate of a sealed contest; the guide to certificates describes its parts.",
    "type": "object",
    "required": list(Certificate.model_fields),
    "properties": {
        name: TYPES.get(name, {"type": "string"}) | {"description": DESCRIPTIONS[name]}
        for name in Certificate.model_fields
    },
}


def certificate_router(auth: Authenticator, snapshots: SnapshotCache, store: Store) -> APIRouter:
    """Build the route of the stored certificate, for keys that may see the counts in it."""
    router = APIRouter(tags=["results"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]
    described = {
        "description": "The certificate.",
        "content": {"application/json": {"schema": CERTIFICATE}},
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
