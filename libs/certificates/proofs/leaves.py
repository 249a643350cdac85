"""Leaves of a certificate's Merkle trees, one for each record of the contest (`libs.contracts.certificates`)."""

from typing import Final, NamedTuple

from libs.certificates.proofs.merkle import leaf_hash

NO_VOTE: Final = "-"


class Leaf(NamedTuple):
    """Content of a leaf. `became` and `receipt` are "-" unless it is a vote that the fold accepted."""

    offset: int
    became: str
    receipt: str
    value_sha256: str

    @property
    def hash(self) -> bytes:
        return leaf_hash(" ".join(map(str, self)).encode())
