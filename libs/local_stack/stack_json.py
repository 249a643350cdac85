"""`stack.json`: describes the running stack to other processes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from libs.local_stack import errors
from libs.storage.private_files import read_private, write_private

FILE = "stack.json"
UNSPECIFIED = ("0.0.0.0", "::", "")  # noqa: S104


def base_url(host: str, port: int) -> str:
    """Return the URL under which this machine reaches a server that listens on `host`."""
    reachable = "127.0.0.1" if host in UNSPECIFIED else host
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def write(data_dir: Path, stack: Mapping[str, Any]) -> None:
    """Replace the file; it holds keys, so only its owner can read it."""
    write_private(data_dir / FILE, json.dumps(stack, indent=2) + "\n")


def remove(data_dir: Path) -> None:
    (data_dir / FILE).unlink(missing_ok=True)


def read(data_dir: Path) -> dict[str, Any] | None:
    """Return the description; None if no stack runs on this data directory.

    Raises `StackError` for a directory of another user, whose servers a command would believe to be its own.
    """
    try:
        stack: dict[str, Any] = json.loads(read_private(data_dir / FILE))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise errors.from_os_error(error, data_dir) from error
    return stack
