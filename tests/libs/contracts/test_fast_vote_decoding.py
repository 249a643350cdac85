"""Fast decoding of votes equals the codec's, or leaves the record to it."""

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.codec import Undecodable, plain_vote, vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.events import Rating, VoteCast
from libs.views.votes.votes_apply_items import fold_item, fold_items
from tests.libs.views.random_logs import logs
from tests.support.builders.contests import a_cast
from tests.support.hypothesis_examples import examples

RATED = a_cast(form="rating", rating=Rating(3, (("s", 1), ("é", 2))))
VOTES = [a_cast(), RATED, a_cast(form="ballot", choices=(("a", 5), ("b", 3))), a_cast(vote_id='quoted "\n\0é😀')]
ANYTHING = [
    b"1", b"-0", b"01", b"1.0", b"1e3", b"1e400", b"NaN", b"true", b"null", b'""', b'"1"', b'"\xff"', b'"\\ud800"',
    b'"\\u0000"', b"[]", b'[["a",1]]', b'[["a",1.0]]', b'[["a",1,2]]', b"[" * 300 + b"]" * 300, b"{}",
    b'{"value":1,"sub_ratings":[]}', b'{"value":1,"other":2}', b"9" * 30, b"9" * 5_000, b"'a'", b'"a\nb"', b"",
]  # fmt: skip
NAMES = [*[each.name for each in fields(VoteCast)], "other", "con\\u0074est", "Contest"]
members = st.sampled_from(NAMES)
records = st.sampled_from([vote_codec.encode(vote) for vote in VOTES])


@st.composite
def altered(draw: st.DrawFn) -> bytes:
    """The JSON text of a vote, with members replaced, left out, moved, doubled and added, or spoilt bytes."""
    vote = orjson.loads(draw(records))
    texts = [(name.encode(), orjson.dumps(value)) for name, value in vote.items()]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(texts) - 1))
        match draw(st.sampled_from(["replace", "replace", "drop", "add", "double", "move"])):
            case "replace":
                texts[at] = texts[at][0], draw(st.sampled_from(ANYTHING))
            case "drop" if len(texts) > 1:
                del texts[at]
            case "add":
                texts.insert(at, (draw(members).encode(), draw(st.sampled_from(ANYTHING))))
            case "double":
                texts.insert(draw(st.integers(0, len(texts) - 1)), texts[at])
            case _:
                texts.insert(draw(st.integers(0, len(texts) - 1)), texts.pop(at))
    value = b"{" + b",".join(b'"%b":%b' % text for text in texts) + b"}"
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(value) - 1))
        value = value[:at] + draw(st.binary(max_size=2)) + value[at + draw(st.integers(0, 2)) :]
    return value


def members_of(vote: Any) -> list[Any]:
    """With their types: equal numbers may be of different types."""
    found = [getattr(vote, each.name) for each in fields(VoteCast)]
    if vote.rating is not None:
        found[found.index(vote.rating)] = [vote.rating.value, vote.rating.sub_ratings]
    return [(type(value), value) for value in found]


@settings(max_examples=examples(1_500), deadline=None)
@given(value=altered() | records)
def test_a_vote_is_decoded_as_the_codec_decodes_it_or_left_to_it(value: bytes) -> None:
    assert_as_the_codec(value)


@pytest.mark.parametrize("name", NAMES)
def test_a_member_too_many_is_decoded_as_the_codec_does(name: str) -> None:
    """Also where nothing reads the member: its text must be valid."""
    for value in ANYTHING:
        assert_as_the_codec(b'{"%b":%b,%b' % (name.encode(), value, vote_codec.encode(RATED)[1:]))


def assert_as_the_codec(value: bytes) -> None:
    vote = plain_vote(value)
    if vote is not None:
        decoded = vote_codec.decode(value)
        assert isinstance(decoded, VoteCast), decoded
        assert members_of(vote) == members_of(decoded)


@pytest.mark.parametrize("vote", VOTES)
def test_votes_as_they_are_written_are_decoded_fast(vote: VoteCast) -> None:
    fast = plain_vote(vote_codec.encode(vote))
    assert fast is not None
    assert members_of(fast) == members_of(vote)


@settings(max_examples=examples(100), deadline=None)
@given(log=logs)
def test_records_become_the_items_of_their_decoded_events(log: list[LogRecord]) -> None:
    """Also those that cannot be folded, with the same reason."""
    events = vote_codec.decode_many([record.value for record in log])
    expected = [
        fold_item(event, record.offset, record.timestamp_ms) for event, record in zip(events, log, strict=True)
    ]
    assert fold_items(log) == expected


def test_a_record_that_is_no_vote_becomes_poison_with_the_codec_s_reason() -> None:
    value = vote_codec.encode(replace(a_cast(), choices=())).replace(b'"epoch":0', b'"epoch":"one"')
    decoded = vote_codec.decode(value)
    assert isinstance(decoded, Undecodable)
    assert fold_items([LogRecord(7, 1, value)]) == [fold_item(decoded, 7, 1)]
