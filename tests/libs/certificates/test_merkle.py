"""Merkle trees against RFC 6962's test vectors and its definition."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from libs.certificates.merkle_proofs import leaf_hash, path_to, root_by, root_of

ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""Of the first so many entries: what Certificate Transparency's reference implementation gives."""
trees = st.lists(st.binary(max_size=3), max_size=70)


def by_definition(entries: list[bytes]) -> bytes:
    """RFC 6962, section 2.1."""
    if not entries:
        return sha256().digest()
    if len(entries) == 1:
        return sha256(b"\0" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return sha256(b"\1" + by_definition(entries[:split]) + by_definition(entries[split:])).digest()


def test_roots_are_those_of_certificate_transparency() -> None:
    leaves = list(map(leaf_hash, ENTRIES))
    assert {size: root_of(leaves[:size]).hex() for size in ROOTS} == ROOTS


@given(trees)
def test_a_root_is_what_the_definition_says(entries: list[bytes]) -> None:
    assert root_of(list(map(leaf_hash, entries))) == by_definition(entries)


@given(trees.filter(bool), st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_no_other_does(
    entries: list[bytes], data: st.DataObject
) -> None:
    leaves = [leaf_hash(str(at).encode() + entry) for at, entry in enumerate(entries)]
    index = data.draw(st.integers(0, len(leaves) - 1))
    leaf, size, root, path = leaves[index], len(leaves), root_of(leaves), path_to(leaves, index)
    assert root_by(leaf, index, size, path) == root
    assert len(path) <= (size - 1).bit_length()
    other = data.draw(st.integers(-2, size + 1).filter(lambda other: other != index))
    assert root_by(leaf, other, size, path) != root
    assert root_by(leaf_hash(b"another"), index, size, path) != root
    assert root_by(leaf, index, size, [*path, leaf]) != root
    if path:
        at = data.draw(st.integers(0, len(path) - 1))
        assert root_by(leaf, index, size, path[:at] + path[at + 1 :]) != root
        assert root_by(leaf, index, size, [*path[:at], leaf_hash(b"another"), *path[at + 1 :]]) != root
