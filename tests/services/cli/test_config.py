"""Settings: `tally config show` lists each with its origin and no secret; wrong ones are named at once."""

import json
import os
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from typer.testing import CliRunner, Result

from libs.local_stack import stack_json
from services.cli.__main__ import app
from services.cli.commands import config
from tests.libs.telemetry.test_environment_settings import OF_A_SERVICE

pytestmark = pytest.mark.pure
SETTINGS_PAGE = Path(__file__).parents[3] / "deploy" / "settings.md"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TALLY_")]:
        monkeypatch.delenv(name)


def invoke(*words: str, **settings: str) -> Result:
    return CliRunner().invoke(app, words, env=settings)


def run(data_dir: Path, *arguments: str) -> Result:
    return invoke("config", "show", "--data-dir", str(data_dir), *arguments)


def shown(data_dir: Path) -> dict[str, Any]:
    result = run(data_dir, "--json")
    assert result.exit_code == 0, result.output
    return {row.pop("setting"): row for row in json.loads(result.stdout)["settings"]}


def test_every_setting_of_the_settings_page_is_there_with_its_default(tmp_path: Path) -> None:
    found = shown(tmp_path)
    assert sorted(found) == sorted(re.findall(r"^\| `(TALLY_\w+)` \|", SETTINGS_PAGE.read_text(), re.MULTILINE))
    assert {row["origin"] for name, row in found.items() if name != "TALLY_DATA_DIR"} == {"default"}
    assert found["TALLY_PARTITIONS"]["value"] == 16
    assert found["TALLY_DATA_DIR"] | {"meaning": ""} == {
        "value": str(tmp_path),
        "origin": "--data-dir",
        "meaning": "",
        "problem": None,
    }


def test_a_value_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the commands take it: addresses from the environment first, the names of a running stack from itself."""
    stack = {"kafka": "h:1", "valkey": "redis://h:2", "namespace": "theirs", "partitions": 4}
    stack_json.write(tmp_path, stack)
    for name in ("VALKEY_URL", "NAMESPACE", "PORT"):
        monkeypatch.setenv(f"TALLY_{name}", {"VALKEY_URL": "redis://h:3", "NAMESPACE": "ours", "PORT": "81"}[name])
    found = {name: (row["value"], row["origin"]) for name, row in shown(tmp_path).items()}
    assert found["TALLY_KAFKA_BOOTSTRAP_SERVERS"] == ("h:1", "stack.json")
    assert found["TALLY_VALKEY_URL"] == ("redis://h:3", "environment")
    assert found["TALLY_NAMESPACE"] == ("theirs", "stack.json")
    assert found["TALLY_PARTITIONS"] == (4, "stack.json")
    assert found["TALLY_PORT"] == ("81", "environment")
    lines = [line.split()[:3] for line in run(tmp_path).stdout.splitlines()]
    assert ["TALLY_PORT", "81", "environment"] in lines


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("redis://user:pass@host:6379/0", "redis://user:***@host:6379/0"),
        ("redis://:p@ss:w@host", "redis://:***@host"),
        ("s3://key:secret@bucket/x", "s3://key:***@bucket/x"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_passwords_in_addresses_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, hidden: str
) -> None:
    monkeypatch.setenv("TALLY_STORAGE_URL", url)
    assert shown(tmp_path)["TALLY_STORAGE_URL"]["value"] == hidden


def test_a_secret_is_hidden_wherever_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(BaseSettings):
        model_config = SettingsConfigDict(env_prefix="TALLY_")

        given: SecretStr | None = None
        built_in: SecretStr = SecretStr("default word")
        absent: SecretStr | None = None

    monkeypatch.setattr(config, "SETTINGS", (Settings,))
    monkeypatch.setenv("TALLY_GIVEN", "given word")
    found = {name: row["value"] for name, row in shown(tmp_path).items()}
    assert found == {"TALLY_GIVEN": "***", "TALLY_BUILT_IN": "***", "TALLY_ABSENT": None}


def test_a_value_that_no_service_would_take_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_PORT", "many")
    monkeypatch.setenv("TALLY_PARTITONS", "4")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "TALLY_PORT many environment Input should be a valid integer" in " ".join(result.stdout.split())
    assert "TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?" in result.stdout


def test_settings_that_contradict_one_another_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "TALLY_KAFKA_SECURITY_PROTOCOL=SASL_SSL needs TALLY_KAFKA_USERNAME" in result.stdout


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
