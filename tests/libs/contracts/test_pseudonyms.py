"""The log names no person, and a receipt is useful only to its owner."""

import hmac
from base64 import urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.pseudonyms import is_receipt_of, pseudonym, receipt
from tests.support.builders.hostile import mutated_text

SECRET, OTHER = b"s" * 32, b"o" * 32


def test_the_same_id_has_another_name_in_each_contest_and_as_each_kind_of_voter() -> None:
    names = {
        pseudonym(SECRET, "voter", "x"),
        pseudonym(SECRET, "anonymous", "x"),
        pseudonym(SECRET, "address", "x"),
        pseudonym(OTHER, "voter", "x"),
    }
    assert len(names) == 4
    assert {len(name) for name in names} == {22}
    assert pseudonym(SECRET, "voter", "x") in names


@given(st.binary(max_size=200), st.text(max_size=200))
def test_a_pseudonym_is_a_truncated_hmac(secret: bytes, identity: str) -> None:
    mac = hmac.digest(secret, f"voter\0{identity}".encode(), "sha256")
    assert pseudonym(secret, "voter", identity) == urlsafe_b64encode(mac[:16]).rstrip(b"=").decode()


@given(st.binary(min_size=1, max_size=32), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_receipt_is_known_by_the_server_that_gave_it_and_only_for_its_contest(
    key: bytes, contest: str, voter: str, vote_id: str
) -> None:
    given_out = receipt(key, contest, voter, vote_id)
    assert is_receipt_of(key, contest, given_out)
    assert not is_receipt_of(key, contest + "x", given_out)
    assert not is_receipt_of(key + b"x", contest, given_out)


@given(st.data())
def test_other_text_is_no_receipt(data: st.DataObject) -> None:
    genuine = receipt(SECRET, "c", "v", "1")
    forged = [
        genuine[:at] + ("A" if genuine[at] != "A" else "B") + genuine[at + 1 :] for at in range(len(genuine) - 1)
    ]
    assert not any(is_receipt_of(SECRET, "c", each) for each in [*forged, "", "%", "AAAA"])
    encoded = st.binary().map(lambda raw: urlsafe_b64encode(raw).rstrip(b"=").decode())
    shown = data.draw(mutated_text(genuine) | encoded)
    if is_receipt_of(SECRET, "c", shown):
        assert "".join(filter(str.isalnum, genuine)) == "".join(filter(str.isalnum, shown))
