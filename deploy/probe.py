"""Health check of a container with an init: exits 0 if the service is ready.

A service that takes connections and does not answer /livez within `HANGS_AFTER_S` will never answer: it is
killed, and the restart policy starts it again. Kubernetes does this by a liveness probe.

Usage: `python /app/probe.py URL`.
"""

import os
import signal
import sys
import urllib.request
from pathlib import Path

HANGS_AFTER_S = 20
READY_WITHIN_S = 4


def answers(url: str, timeout_s: float) -> bool:
    """Return whether the answer is 200. Raises `TimeoutError` if none comes in time."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 (an http: URL of the container)
            return bool(answer.status == 200)
    except TimeoutError:
        raise
    except OSError as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):
            raise TimeoutError from error
        return False


def children_of_init() -> list[int]:
    """Return the service's processes. This check is no child of the init: Docker started it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, parent = int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == 1 and pid != os.getpid():
            found.append(pid)
    return found


def main(base_url: str) -> int:
    try:
        if not answers(f"{base_url}/livez", HANGS_AFTER_S):
            return 1
    except TimeoutError:
        for pid in children_of_init():
            os.kill(pid, signal.SIGKILL)
        return 1
    try:
        return 0 if answers(f"{base_url}/readyz", READY_WITHIN_S) else 1
    except TimeoutError:
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
