"""Settings: `tally config show` lists each with its origin and no secret; wrong ones are named at once."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from typer.testing import CliRunner, Result

from libs.local_stack import stack_json
from services.cli.__main__ import app
from services.cli.commands import config
from tests.libs.telemetry.test_environment_settings import OF_A_SERVICE
from tests.support.servers.web_host import open_host

pytestmark = pytest.mark.pure
SETTINGS_PAGE = Path(__file__).parents[3] / "deploy" / "settings.md"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TALLY_")]:
        monkeypatch.delenv(name)


def invoke(*words: str, **settings: str) -> Result:
    return CliRunner().invoke(app, words, env=settings)


def run(data_dir: Path, *arguments: str, **settings: str) -> Result:
    return invoke("config", "show", "--data-dir", str(data_dir), *arguments, **settings)


def shown(data_dir: Path, **settings: str) -> dict[str, Any]:
    result = run(data_dir, "--json", **settings)
    assert result.exit_code == 0, result.output
    return {row.pop("setting"): row for row in json.loads(result.stdout)["settings"]}


def test_every_setting_of_the_settings_page_is_there_with_its_default(tmp_path: Path) -> None:
    found = shown(tmp_path)
    assert sorted(found) == sorted(re.findall(r"^\| `(TALLY_\w+)` \|", SETTINGS_PAGE.read_text(), re.MULTILINE))
    assert {row["origin"] for name, row in found.items() if name != "TALLY_DATA_DIR"} == {"default"}
    assert found["TALLY_PARTITIONS"]["value"] == 16
    data_dir = found["TALLY_DATA_DIR"]
    assert (data_dir["value"], data_dir["origin"], data_dir["problem"]) == (str(tmp_path), "--data-dir", None)


def test_a_value_says_where_it_comes_from(tmp_path: Path) -> None:
    """As the commands take it: addresses from the environment first, the names of a running stack from itself."""
    stack = {"kafka": "h:1", "valkey": "redis://h:2", "namespace": "theirs", "partitions": 4}
    stack_json.write(tmp_path, stack)
    settings = {"TALLY_VALKEY_URL": "redis://h:3", "TALLY_NAMESPACE": "ours", "TALLY_PORT": "81"}
    found = {name: (row["value"], row["origin"]) for name, row in shown(tmp_path, **settings).items()}
    assert found["TALLY_KAFKA_BOOTSTRAP_SERVERS"] == ("h:1", "stack.json")
    assert found["TALLY_VALKEY_URL"] == ("redis://h:3", "environment")
    assert found["TALLY_NAMESPACE"] == ("theirs", "stack.json")
    assert found["TALLY_PARTITIONS"] == (4, "stack.json")
    assert found["TALLY_PORT"] == ("81", "environment")
    lines = [line.split()[:3] for line in run(tmp_path, **settings).stdout.splitlines()]
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
def test_passwords_in_addresses_are_hidden(tmp_path: Path, url: str, hidden: str) -> None:
    assert shown(tmp_path, TALLY_STORAGE_URL=url)["TALLY_STORAGE_URL"]["value"] == hidden


def test_a_secret_is_hidden_wherever_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(BaseSettings):
        model_config = SettingsConfigDict(env_prefix="TALLY_")

        given: SecretStr | None = None
        built_in: SecretStr = SecretStr("default word")
        absent: SecretStr | None = None

    monkeypatch.setattr(config, "SETTINGS", (Settings,))
    found = {name: row["value"] for name, row in shown(tmp_path, TALLY_GIVEN="given word").items()}
    assert found == {"TALLY_GIVEN": "***", "TALLY_BUILT_IN": "***", "TALLY_ABSENT": None}


@pytest.mark.parametrize(
    ("setting", "code", "line"),
    [
        ("TALLY_PORT=many", 2, "TALLY_PORT many environment Input should be a valid integer"),
        ("TALLY_PARTITONS=4", 0, "TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?"),
        ("TALLY_KAFKA_SECURITY_PROTOCOL=SASL_SSL", 2, "PROTOCOL=SASL_SSL needs TALLY_KAFKA_USERNAME"),
    ],
    ids=["of another type", "misspelt", "contradicting others"],
)
def test_a_wrong_setting_is_named(tmp_path: Path, setting: str, code: int, line: str) -> None:
    name, value = setting.split("=")
    result = run(tmp_path, **{name: value})
    assert result.exit_code == code
    assert line in " ".join(result.stdout.split())


LOUD = {"TALLY_LOG_LEVEL": "loud"}
LOUD_LINE = "Error: TALLY_LOG_LEVEL: Input should be 'debug'"
MISSPELT = {"TALLY_PARTITONS": "4", "TALLY_KAFKA_PASWORD_FILE": "/x"}
WARNINGS = [
    "Warning: TALLY_KAFKA_PASWORD_FILE is no setting; did you mean TALLY_KAFKA_PASSWORD_FILE?",
    "Warning: TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?",
]


@pytest.mark.parametrize(
    ("command", "settings", "error", "warnings"),
    [
        ("up --data-dir", LOUD | MISSPELT, LOUD_LINE, WARNINGS),
        # in the gateway's process, it would be an error in a log file
        (
            "up --data-dir",
            {"TALLY_RATE_PER_KEY": "many"},
            "Error: TALLY_RATE_PER_KEY: Input should be a valid",
            [],
        ),
        ("demo --data-dir", LOUD, LOUD_LINE, []),
        ("serve gateway", LOUD | MISSPELT, LOUD_LINE, WARNINGS),
        ("serve projector", LOUD | MISSPELT, LOUD_LINE, WARNINGS),
    ],
    ids=["up", "up, of the gateway", "demo", "gateway", "projector"],
)
def test_a_wrong_setting_is_one_line_behind_warnings_of_misspelt_ones_and_nothing_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    settings: dict[str, str],
    error: str,
    warnings: list[str],
) -> None:
    monkeypatch.setattr(os, "execv", pytest.fail)
    data_dir = [str(tmp_path / "data")] if command.endswith("--data-dir") else []
    result = invoke(*command.split(), *data_dir, **settings)
    *warned, line = result.stderr.splitlines()
    assert (result.exit_code, result.stdout, warned) == (2, "", warnings)
    assert line.startswith(error)
    assert line.endswith("Correct or unset it; `tally config show` lists all settings.")
    assert not (tmp_path / "data").exists()


def doctor(data_dir: Path, port: int = 0, /, **settings: str) -> Result:
    return invoke("doctor", "--data-dir", str(data_dir / "none"), "--port", str(port), **settings)


def test_doctor_names_misspelt_and_wrong_settings(tmp_path: Path) -> None:
    for value, line in (
        ({"TALLY_PARTITONS": "4"}, "settings: TALLY_PARTITONS is no setting; did you mean TALLY_PARTITIONS?"),
        ({"TALLY_PARTITIONS": "none"}, "TALLY_PARTITIONS: Input should be a valid integer"),
    ):
        result = doctor(tmp_path, **value)
        assert result.exit_code == 1
        assert line in result.stdout


def test_commands_beside_a_service_of_kubernetes_named_tally_work(tmp_path: Path) -> None:
    result = doctor(tmp_path, **OF_A_SERVICE)
    assert result.exit_code == 0, result.output
    assert "is no setting" not in result.stdout


async def test_the_port_of_the_own_gateway_is_no_problem(tmp_path: Path) -> None:
    """As in a container, where `docker exec` runs the command beside the gateway."""
    async with open_host() as gateway:
        gateway.respond("/livez", b'{"status":"alive"}')
        result = await asyncio.to_thread(doctor, tmp_path, gateway.port)
    assert result.exit_code == 0, result.output
    assert f"{gateway.port} is this service's, which runs" in result.stdout
