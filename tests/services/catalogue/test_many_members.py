"""Bodies of pictures with as many unknown members as a body may have."""

import time

import pytest

from libs.contracts.validation import ValidationFailed
from services.catalogue.image_routes import titled

pytestmark = pytest.mark.pure


def test_many_unknown_members_beside_a_picture_are_refused_in_linear_time() -> None:
    """They took half a minute of the event loop: each was looked for in the list of all."""
    began = time.thread_time()
    with pytest.raises(ValidationFailed):
        titled("", {f"m{number}": 0 for number in range(59_000)})
    assert time.thread_time() - began < 2
