"""The visible characters of a text."""

import re
from typing import Final

INVISIBLE: Final = (
    r"\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680"
    r"\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode 16's white space, separators, control, format and default-ignorable characters, and the blank Braille
pattern, as a class of a regular expression. Written out, so that Python and browsers of any age agree;
`assets/visible-text.js` has the same."""
_INVISIBLE: Final = re.compile(f"[{INVISIBLE}]")


def visible_length(text: str) -> int:
    """Return the number of visible characters; a combining mark is one."""
    return len(_INVISIBLE.sub("", text))
