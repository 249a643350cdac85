"""Only jars with the pinned checksum are used."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from libs.local_stack.errors import StackError
from libs.local_stack.jars import JarStore, mirror
from libs.local_stack.java import Pin
from libs.local_stack.startup_report import Silence

JAR = b"the bytes of a jar"
PIN = Pin(hashlib.sha256(JAR).hexdigest(), len(JAR), "org.example:thing:1.0")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The jar as a Maven repository holds it; to be changed by a test."""
    jar = tmp_path / "remote" / "org" / "example" / "thing" / "1.0" / "thing-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(JAR)
    return jar


@pytest.fixture
def repositories(tmp_path: Path, published: Path) -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "remote"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"here": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


def complete(tmp_path: Path, repositories: dict[str, str], cancelled: bool = False) -> list[Path]:
    stop = threading.Event()
    if cancelled:
        stop.set()
    (tmp_path / "home").mkdir(exist_ok=True)
    return JarStore(tmp_path / "home", repositories).complete([PIN], Silence(), stop)


def test_the_settings_name_a_mirror(
    tmp_path: Path, repositories: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mirror() is None
    monkeypatch.setenv("TALLY_MAVEN_MIRROR", repositories["here"])
    found = mirror()
    assert found is not None
    (path,) = complete(tmp_path, found)
    assert path.read_bytes() == JAR


def test_a_damaged_jar_is_fetched_again(tmp_path: Path, repositories: dict[str, str]) -> None:
    (path,) = complete(tmp_path, repositories)
    path.write_bytes(JAR[:5])
    complete(tmp_path, repositories)
    assert path.read_bytes() == JAR


def test_a_jar_with_other_content_is_refused(
    tmp_path: Path, repositories: dict[str, str], published: Path
) -> None:
    published.write_bytes(b"something else")
    with pytest.raises(StackError, match="checksum") as refused:
        complete(tmp_path, repositories)
    assert "TALLY_KAFKA_BOOTSTRAP_SERVERS" in refused.value.message


def test_a_cancelled_start_fetches_no_more(tmp_path: Path, repositories: dict[str, str]) -> None:
    with pytest.raises(StackError):
        complete(tmp_path, repositories, cancelled=True)
    assert not (tmp_path / "home" / "repository").exists()
