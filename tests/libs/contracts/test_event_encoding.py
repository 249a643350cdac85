"""Events are encoded to the bytes that orjson gives: all writers of a log write alike."""

from dataclasses import fields
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.codec import vote_codec
from libs.contracts.purchase_events import PurchasesEvent
from libs.tally.events import Event, Rating
from tests.support.builders.contests import a_cast
from tests.support.hypothesis_examples import examples

EVENTS = [*get_args(Event), *get_args(CatalogueEvent), *get_args(PurchasesEvent)]
texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    # JSON may write an exponent from 16 on with a sign
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e15, 1e15) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner) | st.tuples(inner, inner),
)


@pytest.mark.parametrize("event", EVENTS)
def test_each_type_has_its_members_in_their_order(event: Any) -> None:
    empty = object.__new__(event)
    for member in fields(event):
        object.__setattr__(empty, member.name, member.name)
    assert vote_codec.encode(empty) == orjson.dumps(empty)


@settings(max_examples=examples(500), deadline=None)
@given(value=values)
def test_each_value_is_written_alike(value: Any) -> None:
    vote = a_cast(vote_id=value, rating=Rating(1, value))
    assert vote_codec.encode(vote) == orjson.dumps(vote)
