"""Position tokens: a round trip is exact, and other text is rejected."""

from base64 import urlsafe_b64encode

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.contracts.position_token import (
    MAX_OFFSET,
    MAX_PARTITION,
    decode_positions,
    encode_positions,
    merge_positions,
)

positions = st.dictionaries(st.integers(0, MAX_PARTITION), st.integers(0, MAX_OFFSET), max_size=70)


def token_of(content: object) -> str:
    return urlsafe_b64encode(msgpack.packb(content)).rstrip(b"=").decode()


@given(positions)
def test_a_token_gives_back_what_it_was_made_of(given_positions: dict[int, int]) -> None:
    assert decode_positions(encode_positions(given_positions)) == given_positions


def test_equal_positions_are_equal_tokens() -> None:
    assert encode_positions({1: 7, 0: 3}) == encode_positions({0: 3, 1: 7})


def test_a_token_needs_no_escaping_in_a_query_string() -> None:
    token = encode_positions({partition: 10**12 + partition for partition in range(64)})
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.text(max_size=40))
def test_other_text_is_refused_or_a_valid_token(text: str) -> None:
    try:
        decoded = decode_positions(text)
    except ValueError:
        return
    assert decode_positions(encode_positions(decoded)) == decoded


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "1 to"),
        ("A" * 20_000, "1 to"),
        ("not a token", "decoded"),
        ("ünïcode", "decoded"),
        (token_of([1, 0, 3])[:-1], "decoded"),
        (token_of({"a": 1}), "numbers"),
        (token_of([1, 0, True]), "numbers"),
        (token_of([1, 0, 1.5]), "numbers"),
        (token_of([]), "version"),
        (token_of([2, 0, 3]), "version"),
        (token_of([1, 0]), "missing offset"),
        (token_of([1, 0, 3, 0, 4]), "duplicate partition"),
        (token_of([1, -1, 3]), "partition"),
        (token_of([1, 0, -3]), "offset"),
    ],
)
def test_a_broken_token_is_refused_in_clear_words(token: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decode_positions(token)


def test_the_positions_of_a_batch_merge_to_the_furthest_of_each_partition() -> None:
    assert merge_positions([{0: 3}, {1: 7}, {0: 5, 1: 6}]) == {0: 5, 1: 7}
    assert merge_positions([]) == {}
