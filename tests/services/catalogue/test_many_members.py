"""Bodies of pictures with as many unknown members as a body may have."""

import pytest

from libs.contracts.validation import ValidationFailed
from services.catalogue.image_routes import titled

pytestmark = pytest.mark.pure


def test_many_unknown_members_beside_a_picture_are_refused_before_each_is_named() -> None:
    """They took half a minute of the event loop, as each was looked for in the list of all, and then 150 ms."""
    with pytest.raises(ValidationFailed, match="more than 1,000 members"):
        titled("", {f"m{number}": 0 for number in range(59_000)})
