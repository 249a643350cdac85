"""Proof that a receipt's vote is in a sealed set: Merkle trees of RFC 6962, a leaf for each record of the contest.

Hashes are SHA-256, with 0x00 before a leaf and 0x01 before two nodes.

A tree without leaves has the hash of the empty string. A node without a sibling moves up unchanged. Implemented
here, since the one maintained library on PyPI (pymerkle) is under the GPL, and mostly about storing trees.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from libs.contracts.certificates import FORMAT, Certificate, Proof

EMPTY: Final = sha256().digest()


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\0" + data).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    level = leaves
    while len(level) > 1:
        level = _above(level)
    return level[0] if level else EMPTY


def path_to(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the siblings on the path from the leaf at `index` to the root, from the bottom."""
    path, level = [], leaves
    while len(level) > 1:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index, level = index >> 1, _above(level)
    return path


def root_by(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that `path` gives for a leaf among `size`; None if the path does not fit such a tree."""
    if not 0 <= index < size:
        return None
    node, left = leaf, list(reversed(path))
    while size > 1:
        if index ^ 1 < size:
            if not left:
                return None
            sibling = left.pop()
            node = _node(sibling, node) if index & 1 else _node(node, sibling)
        index, size = index >> 1, (size + 1) >> 1
    return None if left else node


def _above(level: Sequence[bytes]) -> list[bytes]:
    pairs = [_node(left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
    return pairs + [level[-1]] * (len(level) & 1)


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


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


def proof_of(certificate: Certificate, partition: int, leaves: Sequence[Leaf], receipt: str) -> Proof | None:
    """Return the proof from the partition's `leaves`; None if no vote has this receipt."""
    votes = (index for index, leaf in enumerate(leaves) if leaf.became != NO_VOTE and leaf.receipt == receipt)
    index = next(votes, None)
    if index is None:
        return None
    return Proof(
        format=FORMAT,
        contest_key=certificate.contest_key,
        seq=certificate.seq,
        certificate=certificate.sha256,
        partition=partition,
        index=index,
        path=[node.hex() for node in path_to([leaf.hash for leaf in leaves], index)],
        **leaves[index]._asdict(),
    )


def problems(proof: Proof, certificate: Certificate) -> list[str]:
    """Return the reasons why the proof is invalid; empty if it is valid."""
    found = []
    if not certificate.is_whole:
        found.append("the certificate was changed: its sha256 is not that of its contents")
    if (proof.contest_key, proof.seq) != (certificate.contest_key, certificate.seq):
        found.append("the proof is of another contest, or of another of its closings")
    elif proof.certificate != certificate.sha256:
        found.append("the proof is of another certificate")
    if proof.became == NO_VOTE:
        found.append("the record is not an accepted vote")
    if not _leads_to_root(proof, certificate):
        found.append(f"the path does not lead to the root of partition {proof.partition}")
    return found


def _leads_to_root(proof: Proof, certificate: Certificate) -> bool:
    sealed = next((one for one in certificate.partitions if one.partition == proof.partition), None)
    leaf = Leaf(proof.offset, proof.became, proof.receipt, proof.value_sha256)
    try:
        path = [bytes.fromhex(node) for node in proof.path]
    except ValueError:
        return False
    if sealed is None:
        return False
    root = root_by(leaf.hash, proof.index, sealed.leaves, path)
    return root is not None and root.hex() == sealed.root
