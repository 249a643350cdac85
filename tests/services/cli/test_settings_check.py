"""Wrong and misspelt settings are named on the terminal before anything starts."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner, Result

from services.cli.__main__ import app
from tests.libs.telemetry.test_environment_settings import OF_A_SERVICE

pytestmark = pytest.mark.pure


def invoke(*words: str, **settings: str) -> Result:
    """Run a command in this process, with these settings alone."""
    others = dict.fromkeys(name for name in os.environ if name.startswith("TALLY_"))
    return CliRunner().invoke(app, words, env=others | settings)


MISSPELT = {"TALLY_PARTITONS": "4", "TALLY_KAFKA_PASWORD_FILE": "/x"}
WARNINGS = [
    "Warning: TALLY_KAFKA_PASWORD_FILE is no setting; did you mean TALLY_KAFKA_PASSWORD_FILE?",
    "Warning: TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?",
]


@pytest.mark.parametrize(
    ("command", "misspelt", "warnings"),
    [
        (("up", "--data-dir"), MISSPELT, WARNINGS),
        (("demo", "--data-dir"), {}, []),
        (("serve", "gateway"), MISSPELT, WARNINGS),
        (("serve", "projector"), MISSPELT, WARNINGS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_setting_is_one_line_behind_warnings_of_misspelt_ones_and_nothing_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    misspelt: dict[str, str],
    warnings: list[str],
) -> None:
    monkeypatch.setattr(os, "execv", pytest.fail)
    data_dir = [str(tmp_path / "data")] if command[-1] == "--data-dir" else []
    result = invoke(*command, *data_dir, TALLY_LOG_LEVEL="loud", **misspelt)
    assert result.exit_code == 2
    *warned, line = result.stderr.splitlines()
    assert warned == warnings
    assert line.startswith("Error: TALLY_LOG_LEVEL: Input should be 'debug'")
    assert line.endswith("Correct or unset it; `tally config show` lists all settings.")
    assert result.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_setting_of_the_gateway_alone_stops_tally_up_before_it_starts(tmp_path: Path) -> None:
    """In the gateway's process, it would be an error in a log file."""
    result = invoke("up", "--data-dir", str(tmp_path / "data"), TALLY_RATE_PER_KEY="many")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "TALLY_RATE_PER_KEY: Input should be a valid integer" in result.stderr


def test_doctor_names_misspelt_and_wrong_settings(tmp_path: Path) -> None:
    doctor = ("doctor", "--data-dir", str(tmp_path / "none"), "--port", "0")
    misspelt = invoke(*doctor, TALLY_PARTITONS="4")
    assert misspelt.exit_code == 1
    assert "settings: TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?" in misspelt.stdout
    wrong = invoke(*doctor, TALLY_PARTITIONS="none")
    assert wrong.exit_code == 1
    assert "TALLY_PARTITIONS: Input should be a valid integer" in wrong.stdout


def test_commands_beside_a_service_of_kubernetes_named_tally_work(tmp_path: Path) -> None:
    result = invoke("doctor", "--data-dir", str(tmp_path / "none"), "--port", "0", **OF_A_SERVICE)
    assert result.exit_code == 0, result.output
    assert "is no setting" not in result.stdout


class Alive(BaseHTTPRequestHandler):
    """Answers as a gateway does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 404)
        self.end_headers()
        self.wfile.write(b'{"status":"alive"}' if self.path == "/livez" else b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_the_port_of_the_own_gateway_is_no_problem(tmp_path: Path) -> None:
    """As in a container, where `docker exec` runs the command beside the gateway."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Alive) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_address[1])
        result = invoke("doctor", "--data-dir", str(tmp_path / "none"), "--port", port)
        server.shutdown()
    assert result.exit_code == 0, result.output
    assert f"{port} is this service's, which runs" in result.stdout
