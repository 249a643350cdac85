"""Stores of two kinds, a directory and a bucket, under the same tests."""

from collections.abc import Iterator
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest

from libs.storage.object_store import Store, open_store


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Speaks S3 over loopback, and keeps objects in memory.

    It handles one request at a time: moto looks for an object and then writes it, so of two conditional writes at
    once both would succeed.
    """
    # a second of every run, also of those without it
    from moto.moto_server import werkzeug_app as moto  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    dispatcher, one_at_a_time = moto.DomainDispatcherApplication(moto.create_backend_app), Lock()

    def application(environ: Any, start_response: Any) -> Any:
        with one_at_a_time:
            return dispatcher(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=moto.MotoRequestHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    # its threads import what they need at the first call, while tests would iterate over the modules
    _create(f"{url}/first")
    yield url
    server.shutdown()


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
