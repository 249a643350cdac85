"""Rejects polyglot files: pictures that are also valid as another type.

Cameras append much to a picture, even a film; that is accepted, as only the picture is stored. Rejected is content
that no camera writes: scripts, archives, and pages.
"""

import io
import re
import zipfile
from typing import Final

PDF: Final = b"%PDF-"
PDF_WITHIN: Final = 1024
"""PDF readers accept the signature within so many bytes."""
ARCHIVES: Final = (b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c")
MARKUP: Final = re.compile(rb"<(?:(?i:script|html)[\s/>]|\?(?i:php)\s)")
COMMENT_BEGINS: Final = re.compile(rb"(?s:GIF8[79]a|RIFF|\xff\xd8\xff.)/\*")
"""JavaScript parses the first bytes of a picture as a name, then its size as the start of a comment."""
COMMENT_ENDS: Final = re.compile(rb"\*/\s*[=;(,]")


def is_something_else(data: bytes) -> bool:
    """Return whether the data is also valid as an archive, a PDF, a page, or a script."""
    return (
        PDF in data[:PDF_WITHIN]
        or any(archive in data for archive in ARCHIVES)
        or zipfile.is_zipfile(io.BytesIO(data))
        or MARKUP.search(data) is not None
        or (COMMENT_BEGINS.match(data) is not None and COMMENT_ENDS.search(data) is not None)
    )
