"""Hostile list tokens and keys: parsed exactly, or rejected."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.catalogue.pagination import _after, _token
from libs.contracts.validation import ValidationFailed
from libs.legacy.feeds import key_of, split_key
from libs.tally.errors import NotFound
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.catalogue.catalogue_views import Order
from tests.support.builders.hostile import mutated_text

ORDERS: tuple[Order, ...] = ("created", "updated")
PLACED: tuple[Order, ...] = (*ORDERS, "running_number", "sort_key")


@given(st.sampled_from(ORDERS), st.integers(0, 10**16 - 1))
def test_a_token_leads_to_where_its_page_ended_in_its_own_order_alone(order: Order, place: int) -> None:
    token = _token(order, place)
    assert _after(token, order) == place
    other = ORDERS[1 - ORDERS.index(order)]
    with pytest.raises(ValidationFailed):
        _after(token, other)


@given(
    st.sampled_from(PLACED),
    mutated_text(_token("created", 5), _token("updated", 10**15), _token("sort_key", "~\0a")),
)
def test_other_text_is_no_token(order: Order, token: str) -> None:
    with suppress(ValidationFailed):
        assert _token(order, _after(token, order)) == token


@given(mutated_text(key_of("feed", 1), key_of("a~b", 99)))
def test_a_page_s_key_is_read_as_it_was_made_or_not_found(key: str) -> None:
    with suppress(NotFound):
        assert key_of(*split_key(key, "page")) == key


@given(mutated_text("2026-05-01T18:00:00Z", "0001-01-01t00:00:00.123456789+23:59", "9999-12-31 23:59:59-23:59"))
def test_a_time_is_read_or_refused(text: str) -> None:
    try:
        at = parse_timestamp(text)
    except ValueError:
        return
    assert parse_timestamp(at.isoformat()) == at
    assert microseconds(at) < 2**63
