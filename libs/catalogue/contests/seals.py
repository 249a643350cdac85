"""The seal in a contest's record, and the destruction of its secret.

The members `seal` and `secret_erased` of the stored document belong to the server.
"""

from dataclasses import asdict, dataclass

from libs.catalogue.contests.closing_record import current_closing
from libs.catalogue.errors import NotSealed
from libs.catalogue.schemas.base import Document
from libs.tally.errors import ContestFinal


@dataclass(frozen=True, slots=True)
class Seal:
    """Seal of closing number `seq`, whose certificate has this `sha256`. `sealed_at` is in us."""

    seq: int
    sha256: str
    sealed_at: int


def seal_of(document: Document) -> Seal | None:
    """Return the current seal, or None."""
    kept = document.get("seal")
    return None if kept is None else Seal(**kept)


def sealed(document: Document, seal: Seal) -> Document:
    """Add `seal` to the document of a contest. Idempotent.

    Raises `NotClosed` unless closing `seal.seq` is the current one, `ContestFinal` if another result is sealed.
    """
    current_closing(document, seal.seq)
    before = seal_of(document)
    if before is None:
        return document | {"seal": asdict(seal)}
    if before.sha256 != seal.sha256:
        raise ContestFinal(f"The contest is already sealed with another certificate: {before.sha256}.")
    return document


def unsealed(document: Document) -> Document:
    """Remove the seal from the document. Raises `NotSealed`."""
    if not is_sealed(document):
        raise NotSealed("The contest is not sealed.")
    return {name: value for name, value in document.items() if name != "seal"}


def is_sealed(document: Document) -> bool:
    return "seal" in document


def is_erased(document: Document) -> bool:
    """Return whether the contest's secret is destroyed, or about to be."""
    return "secret_erased" in document


def erased(document: Document, now: int) -> Document:
    """Mark the secret of a sealed contest as destroyed at `now` (us). Idempotent.

    Raises `NotSealed`.
    """
    if not is_erased(document) and not is_sealed(document):
        raise NotSealed("The contest is not sealed: its secret is needed until `tally seal` has been run.")
    return {"secret_erased": now} | document
