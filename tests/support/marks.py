"""Adds pytest marks by the fixtures of a test."""

from typing import Final

import pytest

FIXTURES: Final = {
    "browser": frozenset({"chromium"}),
    "stack": frozenset({"stack", "own_stack"}),
    "servers": frozenset({"servers", "servers_of_test", "breakable", "stack", "own_stack"}),
}


def add_marks(item: pytest.Item) -> None:
    """Add each mark whose fixtures the test uses, and `pure` to a test with none of these marks."""
    used = set(getattr(item, "fixturenames", ()))
    for mark, fixtures in FIXTURES.items():
        if used & fixtures:
            item.add_marker(mark)
    if not any(map(item.get_closest_marker, FIXTURES)):
        item.add_marker("pure")


def check_is_not_pure(item: pytest.Item) -> None:
    """Fail a test that starts servers although it is marked `pure`."""
    if item.get_closest_marker("pure"):
        pytest.fail(f"{item.nodeid} uses servers by other ways than its fixtures: mark it `servers`")
