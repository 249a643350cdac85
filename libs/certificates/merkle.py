"""Merkle trees as in RFC 6962, over leaf hashes: SHA-256, 0x00 before a leaf, 0x01 before two nodes.

The tree of no leaves has the hash of nothing. A node without a sibling moves up as it is. Written out here, since
the one library for it on PyPI that is kept up (pymerkle) is under the GPL, and mostly about storing trees.
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
    """The siblings on the way from the leaf at `index` to the root, from below."""
    path, level = [], leaves
    while len(level) > 1:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index, level = index >> 1, _above(level)
    return path


def root_by(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root to which `path` leads from a leaf among `size`; None where it is no path of such a tree."""
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
