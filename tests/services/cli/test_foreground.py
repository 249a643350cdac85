"""`tally up` in the foreground: errors are one line and an exit code, never a traceback."""

from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.errors import Exit
from libs.local_stack.startup_report import Report
from libs.tally.errors import LogUnavailable
from services.cli.commands import up


class Unstartable:
    """A supervisor whose servers do not respond."""

    data_dir = Path()

    async def start(self) -> dict[str, Any]:
        raise LogUnavailable("Kafka did not respond.", retry_after_s=1)

    async def stop(self) -> None:
        pass


async def test_a_server_that_does_not_respond_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert await up.run(Unstartable(), Report()) == Exit.SERVER_AWAY  # type: ignore[arg-type]
    assert capsys.readouterr().err.strip() == "Error: Kafka did not respond."
