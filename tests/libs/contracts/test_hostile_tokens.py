"""Hostile receipts: parsed, or rejected, for any bytes."""

from base64 import urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.pseudonyms import is_receipt_of, receipt
from tests.support.hostile import mutated_text

KEY = b"k" * 32


def token_of(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


@given(st.binary(min_size=1, max_size=32), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_receipt_holds_where_it_was_given_and_for_its_contest_alone(
    key: bytes, contest: str, voter: str, vote_id: str
) -> None:
    given_out = receipt(key, contest, voter, vote_id)
    assert is_receipt_of(key, contest, given_out)
    assert not is_receipt_of(key, contest + "x", given_out)
    assert not is_receipt_of(key + b"x", contest, given_out)


@given(st.data())
def test_other_text_is_no_receipt(data: st.DataObject) -> None:
    genuine = receipt(KEY, "c", "v", "1")
    shown = data.draw(mutated_text(genuine) | st.binary().map(token_of))
    if is_receipt_of(KEY, "c", shown):
        assert "".join(filter(str.isalnum, genuine)) == "".join(filter(str.isalnum, shown))
