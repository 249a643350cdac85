"""A real clamd with one test signature, without downloading a database."""

import asyncio
import os
import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.local_stack.ports import free_ports
from tests.support.eventually import eventually

MALWARE = b"X5T!TALLYKEEPER-TEST-SIGNATURE-NOT-A-VIRUS!X5T"
STREAM_MAX_BYTES = 1 << 20


@asynccontextmanager
async def clamd(program: str, directory: Path) -> AsyncIterator[str]:
    """Run clamd as the current user; yield its `clamd://` URL."""
    database, (port,) = directory / "database", free_ports(1)
    database.mkdir()
    (database / "tally.ndb").write_text(f"Tally.Test:0:*:{MALWARE.hex()}\n")
    settings = {
        "Foreground": "yes",
        "User": pwd.getpwuid(os.getuid()).pw_name,
        "DatabaseDirectory": database,
        "TemporaryDirectory": directory,
        "TCPAddr": "127.0.0.1",
        "TCPSocket": port,
        "StreamMaxLength": STREAM_MAX_BYTES,
        "OfficialDatabaseOnly": "no",
        "LogFile": directory / "log",
    }
    config = directory / "clamd.conf"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    process = await asyncio.create_subprocess_exec(
        program, "--config-file", str(config), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )

    async def answers() -> bool:
        assert process.returncode is None, (directory / "log").read_text()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.write(b"zPING\0")
        answer = await reader.read(100)
        writer.close()
        return answer == b"PONG\0"

    try:
        await eventually(answers)
        yield f"clamd://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
