"""Stores of two kinds, a directory and a bucket, under the same tests."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from libs.storage.object_store import Store, open_store


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Speaks S3 over loopback, and keeps what it gets in memory."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (a second of every run, also of those without it)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    # its threads import what they need at the first call, while tests would iterate over the modules
    _create(f"{url}/first")
    yield url
    server.stop()


def _create(bucket: str) -> None:
    httpx.put(bucket, timeout=60).raise_for_status()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty one; its address and keys come from the environment, as in a deployment."""
    for name, value in {
        "ENDPOINT_URL": s3,
        "ALLOW_HTTP": "true",
        "REGION": "us-east-1",
        "ACCESS_KEY_ID": "anybody",
        "SECRET_ACCESS_KEY": "anything",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"b{uuid4().hex}"
    _create(f"{s3}/{name}")
    return f"s3://{name}"


@pytest.fixture(params=["directory", "bucket"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return f"file://{tmp_path}/objects"
    url: str = request.getfixturevalue("bucket")
    return url


@pytest.fixture
def store(store_url: str) -> Store:
    return open_store(store_url)
