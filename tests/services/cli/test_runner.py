"""The end of a command: an exit code and one line, never a traceback."""

import asyncio

import pytest
import typer

from services.cli.runner import ExitCode, run


def test_a_library_that_cancels_a_command_is_a_server_that_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    async def cancelled() -> ExitCode:
        raise asyncio.CancelledError

    with pytest.raises(typer.Exit) as ended:
        run(cancelled())
    assert ended.value.exit_code == ExitCode.SERVER_AWAY
    said = capsys.readouterr().err
    assert said.startswith("Error: A connection to a server ended: run it again.")
    assert len(said.splitlines()) == 1
