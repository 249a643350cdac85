"""Files with a content that a test computes: compared, or written with TALLY_UPDATE_DOCUMENTS=1."""

import os
from pathlib import Path


def updated(path: Path, text: str) -> str:
    """Return the file's text, written first if documents are to be updated."""
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path.read_text()
