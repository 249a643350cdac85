"""Files of two kinds at once: a picture to who looks at the beginning, something else to others.

Cameras put much behind a picture, a film even, and that is taken: what is kept of it is a picture alone. Refused
is what no camera makes: what somebody might run, unpack, or show as a page.
"""

import io
import re
import zipfile
from typing import Final

PDF: Final = b"%PDF-"
PDF_WITHIN: Final = 1024
"""Readers of PDF look for it so far into a file."""
ARCHIVES: Final = (b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c")
MARKUP: Final = re.compile(rb"<(?:(?i:script|html)[\s/>]|\?(?i:php)\s)")
COMMENT_BEGINS: Final = re.compile(rb"(?s:GIF8[79]a|RIFF|\xff\xd8\xff.)/\*")
"""JavaScript reads the first bytes of a picture as a name, then its size as the beginning of a comment."""
COMMENT_ENDS: Final = re.compile(rb"\*/\s*[=;(,]")


def is_something_else(data: bytes) -> bool:
    """Whether it could also pass for an archive, a PDF, a page, or a script."""
    return (
        PDF in data[:PDF_WITHIN]
        or any(archive in data for archive in ARCHIVES)
        or zipfile.is_zipfile(io.BytesIO(data))
        or MARKUP.search(data) is not None
        or (COMMENT_BEGINS.match(data) is not None and COMMENT_ENDS.search(data) is not None)
    )
