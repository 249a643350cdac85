"""Position tokens: a round trip is exact, they show no offset, and other text is rejected."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.position_token import PositionTokens, merge_positions
from tests.support.clients.positions import HeldSecrets

MAX_PARTITION, MAX_OFFSET = 2**32 - 1, 2**63 - 1
positions = st.dictionaries(st.integers(0, MAX_PARTITION), st.integers(0, MAX_OFFSET), max_size=70)
FIRST, SECOND, THIRD = b"1" * 32, b"2" * 32, b"3" * 32


async def tokens_of(*secrets: bytes, newer: tuple[bytes, ...] = ()) -> PositionTokens:
    tokens = PositionTokens(HeldSecrets(*secrets, newer=newer))
    await tokens.load()
    return tokens


@given(positions)
@example(dict.fromkeys(range(1000), MAX_OFFSET))  # the largest deployment
async def test_a_token_gives_back_what_it_was_made_of(given_positions: dict[int, int]) -> None:
    tokens = await tokens_of(FIRST)
    assert await tokens.decode(tokens.encode(given_positions)) == given_positions


async def test_a_token_shows_no_offset_and_no_difference_of_offsets() -> None:
    """Whoever knows many of its own, at offsets that it guesses, learns nothing of those between them."""
    tokens = await tokens_of(FIRST)
    made = [tokens.encode({3: offset}) for offset in (0, 1, 2, 255, 256, 10**6, 10**15)]
    assert {len(token) for token in made} == {39}
    raw = [urlsafe_b64decode(token + "=" * (-len(token) % 4)) for token in made]
    for at in range(len(raw[0])):
        assert len({each[at] for each in raw}) > 1
    assert tokens.encode({3: 1}) != (await tokens_of(SECOND)).encode({3: 1})


async def test_a_mapping_that_was_encoded_before_gives_the_token_of_its_offsets_and_of_the_newest_secret() -> None:
    secrets = HeldSecrets(FIRST, newer=(FIRST, SECOND))
    tokens = PositionTokens(secrets)
    await tokens.load()
    one, other = {0: 7}, {0: 8}
    assert [await tokens.decode(tokens.encode(each)) for each in (one, one, other, one)] == [one, one, other, one]
    before = tokens.encode(one)
    await tokens.load(again=True)
    assert tokens.encode(one) == (await tokens_of(SECOND)).encode(one) != before


async def test_a_rotation_ends_no_token_until_its_secret_is_retired() -> None:
    before, rotated, retired = await tokens_of(FIRST), await tokens_of(FIRST, SECOND), await tokens_of(SECOND)
    old, new = before.encode({0: 7}), rotated.encode({0: 8})
    assert [await rotated.decode(token) for token in (old, new)] == [{0: 7}, {0: 8}]
    assert await retired.decode(new) == {0: 8}
    with pytest.raises(ValueError, match="not a position token"):
        await retired.decode(old)


@given(st.text(max_size=60))
async def test_no_other_text_is_a_token(text: str) -> None:
    with pytest.raises(ValueError, match="position token"):
        await (await tokens_of(FIRST)).decode(text)


async def test_a_changed_token_is_refused_in_clear_words() -> None:
    tokens = await tokens_of(FIRST)
    token = tokens.encode({0: 3})
    changed = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token) - 1)]
    for text in (*changed, token[:-4], token + "AAAA", "not a token", "ünïcode", "A"):
        with pytest.raises(ValueError, match="not a position token"):
            await tokens.decode(text)
    for text in ("", "A" * 20_000):
        with pytest.raises(ValueError, match="1 to"):
            await tokens.decode(text)


def test_the_positions_of_a_batch_merge_to_the_furthest_of_each_partition() -> None:
    assert merge_positions([{0: 3}, {1: 7}, {0: 5, 1: 6}]) == {0: 5, 1: 7}
    assert merge_positions([]) == {}
