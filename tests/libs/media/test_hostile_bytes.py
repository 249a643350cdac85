"""Hostile files and pictures: accepted, or rejected with an error; never a crash."""

import io
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.media.content_sniffing import TypeCheck
from libs.media.picture_encoding import FORMATS, NotAPicture, shrunk, take_in
from tests.support.builders.hostile import mutated, mutated_text
from tests.support.builders.pictures import encoded, halves, opened
from tests.support.hypothesis_examples import examples

MAX_PIXELS: Final = 10_000
PICTURES: Final = tuple(encoded(halves(8, 4), name) for name in FORMATS)


@settings(max_examples=examples(200))
@given(mutated(*PICTURES, most=6))
def test_any_bytes_are_a_picture_or_refused(data: bytes) -> None:
    try:
        found = take_in(io.BytesIO(data), MAX_PIXELS)
    except NotAPicture:
        return
    assert found.width * found.height <= MAX_PIXELS
    assert opened(found.data).size == (found.width, found.height)
    assert take_in(io.BytesIO(found.data), MAX_PIXELS).format == found.format
    assert max(opened(shrunk(found.data, found.format, 5)).size) <= 5


@given(
    mutated_text("image/png", "text/plain; charset=utf-8", "application/json", "audio/mp3", "application/pdf"),
    st.lists(mutated(*PICTURES, b"plain text", "Füße".encode(), b"%PDF-1.7"), max_size=4),
)
def test_bytes_of_any_type_are_looked_at(media_type: str, chunks: list[bytes]) -> None:
    scans = [TypeCheck(media_type), TypeCheck(media_type)]
    for chunk in chunks:
        scans[0].feed(chunk)
    scans[1].feed(b"".join(chunks))
    assert scans[0].passed() is scans[1].passed()
