"""Byte ranges and file names of responses."""

from urllib.parse import unquote

import pytest

from libs.web.errors import RangeNotSatisfiable
from libs.web.responses import Span, attachment, requested_range


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-0", Span(0, 1)),
        ("bytes=2-", Span(2, 10)),
        ("Bytes=2-99", Span(2, 10)),
        ("bytes=-3", Span(7, 10)),
        ("bytes=-99", Span(0, 10)),
        (None, None),
        ("", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=5-2", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=٢-٣", None),
        (f"bytes={'9' * 5000}-", None),
    ],
)
def test_one_range_is_understood_and_anything_else_passed_over(header: str | None, span: Span | None) -> None:
    assert requested_range(header, 10) == span


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)]
)
def test_a_range_with_nothing_in_it_is_refused(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        requested_range(header, size)
    assert refused.value.size == size


@pytest.mark.parametrize(
    "name", ["plan.pdf", 'a"b\\c.txt', "Füße & 👟.png", "a\r\nSet-Cookie: x", "../../etc/passwd", "%41"]
)
def test_every_name_can_be_a_header_and_comes_back(name: str) -> None:
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()
    kind, plain, full = header.split("; ")
    assert (kind, plain.count('"')) == ("attachment", 2)
    assert "/" not in plain
    assert unquote(full.removeprefix("filename*=UTF-8''")) == name
