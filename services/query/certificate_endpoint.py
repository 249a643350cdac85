"""`GET /contests/<key>/certificate`: the certificate of a sealed contest."""

from starlette.types import Receive, Scope, Send

from libs.catalogue.contests.closing_record import seal_of
from libs.certificates.service import load
from libs.storage.object_store import Store
from libs.tally.errors import NotFound
from libs.web.door.auth import Authenticator, require
from libs.web.responses import send_whole
from services.query.snapshot_cache import SnapshotCache


class CertificateDownload:
    """Serves the stored certificate, byte for byte, to keys that may see the counts in it."""

    def __init__(self, auth: Authenticator, snapshots: SnapshotCache, store: Store) -> None:
        self._auth = auth
        self._snapshots = snapshots
        self._store = store

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        key = self._auth.known(scope) or await self._auth.authenticate(scope)
        require(key, "results:read")
        contest = scope["path_params"]["contest_key"]
        snapshot = await self._snapshots.get(key.account, contest)
        snapshot.check_visible(key.permissions)
        seal = seal_of(snapshot.stored.document)
        certificate = None if seal is None else await load(self._store, contest, seal.seq)
        if seal is None or certificate is None:
            raise NotFound("The contest is not sealed: `tally seal` creates its certificate.")
        body = certificate.canonical()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"content-disposition", f'attachment; filename="certificate-{seal.sha256[:12]}.json"'.encode()),
            (b"cache-control", b"private, no-cache"),
        ]
        await send_whole(send, 200, headers, body)
