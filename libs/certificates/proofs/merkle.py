"""Merkle trees of RFC 6962 over leaf hashes: SHA-256, with 0x00 before a leaf and 0x01 before two nodes.

A tree without leaves has the hash of the empty string. A node without a sibling moves up unchanged. Implemented
here, since the one maintained library on PyPI (pymerkle) is under the GPL, and mostly about storing trees.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

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
