"""Kafka's jars: pinned, downloaded once to the user's cache directory, verified by SHA-256."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from filelock import FileLock
from platformdirs import user_cache_path

from libs.local_stack import errors
from libs.local_stack.java import Pin, pins
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report

PARALLEL = 4
ATTEMPTS = 3


def home() -> Path:
    """Return the directory of the jars."""
    return user_cache_path("tallykeeper") / "kafka-4.3.0"


def class_path(report: Report, cancelled: Event | None = None, cache: Path | None = None) -> list[Path]:
    """Return the jars in class path order, downloading missing ones under a file lock.

    A jar is hashed when downloaded and whenever its size or modification time has changed. Raises `StackError` if
    one cannot be downloaded or is not the pinned one, or once `cancelled` is set.
    """
    directory = cache or home()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / "lock"):
            return JarStore(directory, mirror()).complete(pins(), report, cancelled or Event())
    except OSError as error:
        raise errors.from_os_error(error, directory) from error


def mirror() -> dict[str, str] | None:
    """Return the repository that the settings name."""
    url = StackSettings().maven_mirror
    return None if url is None else {"mirror": url.get_secret_value()}


class JarStore:
    """Private Maven repository, without other programs' partial files, and a record of the verified jars."""

    def __init__(self, home: Path, repositories: dict[str, str] | None = None) -> None:
        """`repositories` maps names to base URLs, tried in this order; by default those that jgo is
        configured with, and Maven's central one."""
        self._repositories = repositories
        self._repository = home / "repository"
        self._checked_file = home / "checked.json"
        try:
            self._checked: dict[str, list[int]] = json.loads(self._checked_file.read_text())
        except (OSError, ValueError):
            self._checked = {}

    def complete(self, wanted: list[Pin], report: Report, cancelled: Event) -> list[Path]:
        """Download and verify missing jars; returns the paths in the order of `wanted`."""
        missing = [pin for pin in wanted if not self._holds(pin)]
        if missing:
            total = sum(pin.size for pin in missing)
            report.line(f"Fetching Kafka 4.3.0 (once): {total / 1e6:.0f} MB")
            report.begin("Bytes", total)

            def fetch(pin: Pin) -> None:
                if cancelled.is_set():
                    raise errors.fetch_failed(pin.coordinate, "cancelled")
                self._fetch(pin)
                report.advance(pin.size)

            try:
                with ThreadPoolExecutor(PARALLEL) as pool:
                    list(pool.map(fetch, missing))
            finally:
                report.end()
            self._checked_file.write_text(json.dumps(self._checked))
        return [self._path(pin) for pin in wanted]

    def _path(self, pin: Pin) -> Path:
        group, artifact, version = pin.coordinate.split(":")
        return self._repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")

    def _holds(self, pin: Pin) -> bool:
        path = self._path(pin)
        try:
            now = [path.stat().st_size, path.stat().st_mtime_ns]
        except FileNotFoundError:
            return False
        return self._checked.get(pin.sha256) == now or self._check(pin)

    def _check(self, pin: Pin) -> bool:
        path = self._path(pin)
        with path.open("rb") as jar:
            if hashlib.file_digest(jar, "sha256").hexdigest() != pin.sha256:
                return False
        self._checked[pin.sha256] = [path.stat().st_size, path.stat().st_mtime_ns]
        return True

    def _fetch(self, pin: Pin) -> None:
        import requests  # noqa: PLC0415 (like jgo, only imported for downloads: it takes 0.3 s of each start)
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415

        configured = {**GlobalSettings.load().repositories, "central": MAVEN_CENTRAL_URL}
        group, artifact, version = pin.coordinate.split(":")
        reason = "its checksum is not the pinned one"
        for _ in range(ATTEMPTS):
            self._path(pin).unlink(missing_ok=True)
            context = MavenContext(
                resolver=PythonResolver(),
                repo_cache=self._repository,
                remote_repos=self._repositories or configured,
                timeout=30,
            )
            try:
                context.project(group, artifact).at_version(version).artifact().resolve()
            except (requests.RequestException, RuntimeError) as error:
                reason = type(error).__name__
                continue
            if self._check(pin):
                return
        raise errors.fetch_failed(pin.coordinate, reason)
