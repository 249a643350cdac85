"""Styles in the legacy API: validated only where they change."""

from typing import Any

import pytest

from libs.contracts.validation import ValidationFailed
from libs.legacy.feeds import feed_written


def style(given: Any, held: dict[str, Any] | None = None) -> Any:
    before = None if held is None else {"style": held}
    return feed_written({"style": given}, before)["style"]


def test_what_legacy_does_not_know_is_kept_and_the_rest_replaced() -> None:
    held = {"alpha": 0.5, "text_color": "#fff", "width": 3}
    assert style({"width": 4}, held) == {"alpha": 0.5, "width": 4}
    assert style({"alpha": 0.5, "width": None}, held) == {"alpha": 0.5}


def test_a_style_that_was_read_can_be_sent_back_whatever_it_holds() -> None:
    held = {"alpha": [], "text_color": "red", "padding": {"all": 1}}
    assert style(held, held) == held
    for name, value in (("alpha", 1), ("text_color", "blue"), ("padding", {"all": 2})):
        with pytest.raises(ValidationFailed) as caught:
            style(held | {name: value}, held)
        assert caught.value.data["errors"][0]["pointer"].startswith(f"/style/{name}")


def test_a_write_without_a_style_leaves_it_alone() -> None:
    assert feed_written({"title": "x"}, {"style": {"alpha": 1}}) == {"title": "x", "style": {"alpha": 1}}
