"""Proof that the vote of a receipt is in the sealed set, with its outcome there.

It holds the vote's leaf (see `libs.contracts.certificates`) and the sibling hashes on the path to the root in
the certificate. Of the vote it shows the receipt, which its voter has, and a hash of the record, whose pseudonyms
cannot be guessed; of other votes only hashes of such leaves. It names no voter and no participant, and shows no
other receipt.
"""

from collections.abc import Sequence

from libs.certificates.proofs.leaves import NO_VOTE, Leaf
from libs.certificates.proofs.merkle import path_to, root_by
from libs.contracts.certificates import FORMAT, Certificate, Proof


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
