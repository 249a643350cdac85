"""`tally config show`: every setting with its origin, and no secret."""

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

SETTINGS_PAGE = Path(__file__).parents[3] / "deploy" / "settings.md"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TALLY_")]:
        monkeypatch.delenv(name)


def run(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", "--data-dir", str(data_dir), *arguments])


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
