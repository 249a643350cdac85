"""Certificates in the object store: written once each, never changed, kept whatever becomes of their contest."""

from pydantic import ValidationError

from libs.certificates.certificate import Certificate
from libs.storage.store import Store
from libs.tally.errors import TallyError

FOLDER = "certificates"


class CertificateConflict(TallyError):
    """What is kept is not what was sealed, or not what the log gives."""


async def keep(store: Store, certificate: Certificate) -> None:
    """The same again is fine. Raises `CertificateConflict`, and `StorageUnavailable`."""
    name, value = _name(certificate.contest_key, certificate.seq), certificate.canonical()
    if await store.put_if_absent(name, value):
        return
    if await store.get(name) != value:
        raise CertificateConflict(
            f"{name} in the object store is another certificate than the log gives. One of the two was changed: "
            "compare them with `tally certificate verify` before you go on."
        )


async def kept(store: Store, contest: str, seq: int) -> Certificate | None:
    """Raises `CertificateConflict` where it was changed, and `StorageUnavailable`."""
    name = _name(contest, seq)
    value = await store.get(name)
    if value is None:
        return None
    try:
        certificate = Certificate.model_validate_json(value)
    except ValidationError:
        certificate = None
    if certificate is None or not certificate.is_whole:
        raise CertificateConflict(
            f"{name} in the object store was changed: its sha256 is not that of its contents."
        )
    return certificate


def _name(contest: str, seq: int) -> str:
    return f"{FOLDER}/{contest}/{seq}.json"
