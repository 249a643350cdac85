"""Files that hold secrets."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace the file atomically; only its owner can read it."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)


def remembered_secret(path: Path) -> str:
    """Return the file's random secret, 256 bits in hexadecimal digits; created by the first call."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, secrets.token_hex(32))
    return path.read_text()
