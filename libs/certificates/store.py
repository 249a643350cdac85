"""Certificates in the object store: each is written once and never changed, and outlives its contest."""

from pydantic import ValidationError

from libs.contracts.certificates import Certificate
from libs.storage.object_store import Store
from libs.tally.errors import TallyError

FOLDER = "certificates"


class CertificateConflict(TallyError):
    """The stored certificate was changed, or differs from the log."""


async def save(store: Store, certificate: Certificate) -> None:
    """Store a certificate; repeatable. Raises `CertificateConflict`, and `StorageUnavailable`."""
    name, value = _name(certificate.contest_key, certificate.seq), certificate.canonical()
    if await store.put_if_absent(name, value):
        return
    if await store.get(name) != value:
        raise CertificateConflict(
            f"{name} in the object store differs from the certificate that the log gives. One was changed: "
            "compare them with `tally certificate verify` before you continue."
        )


async def load(store: Store, contest: str, seq: int) -> Certificate | None:
    """Return the stored certificate, or None. Raises `CertificateConflict` if it was changed, and
    `StorageUnavailable`.
    """
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
