"""Settings from environment variables: by value or from files, told apart from Kubernetes's own."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from libs.deployment.settings import DeploymentSettings
from libs.kafka.settings import KafkaSettings
from libs.local_stack.settings import StackSettings
from libs.telemetry.environment_settings import describe_problems, link_variables
from libs.telemetry.redaction import SecretUrl
from services.gateway.settings import Settings as GatewaySettings
from services.projector.settings import Settings as ProjectorSettings
from tests.support.servers.secured import environment

pytestmark = pytest.mark.pure

OF_A_SERVICE = {
    "TALLY_SERVICE_HOST": "10.96.0.7",
    "TALLY_SERVICE_PORT": "8080",
    "TALLY_SERVICE_PORT_HTTP": "8080",
    "TALLY_PORT": "tcp://10.96.0.7:8080",
    "TALLY_PORT_8080_TCP": "tcp://10.96.0.7:8080",
    "TALLY_PORT_8080_TCP_PROTO": "tcp",
    "TALLY_PORT_8080_TCP_PORT": "8080",
    "TALLY_PORT_8080_TCP_ADDR": "10.96.0.7",
    "TALLY_METRICS_SERVICE_HOST": "10.96.0.8",
    "TALLY_METRICS_PORT": "tcp://10.96.0.8:9465",
    "TALLY_OPERATIONS_PORT": "udp://10.96.0.9:9464",
}
"""Kubernetes sets these beside the services `tally`, `tally-metrics` and `tally-operations`."""


def problem_of(settings: type[KafkaSettings] = KafkaSettings) -> str:
    with pytest.raises(ValidationError) as refused:
        settings()
    return describe_problems(refused.value)


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({}, (8080, 0, 0)),
        ({"TALLY_PORT": "81", "TALLY_OPERATIONS_PORT": "9464", "TALLY_METRICS_PORT": "9465"}, (81, 9464, 9465)),
    ],
)
def test_kubernetes_link_variables_are_no_settings_and_others_beside_them_are(
    given: dict[str, str], ports: tuple[int, int, int]
) -> None:
    assert link_variables(OF_A_SERVICE) == set(OF_A_SERVICE)
    assert link_variables(given) == set()
    with environment(OF_A_SERVICE | given):
        gateway, projector = GatewaySettings(), ProjectorSettings()
        assert (gateway.port, gateway.operations_port, projector.metrics_port) == ports
        assert not link_variables(os.environ) & set(given)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("kafka_password", SecretStr("wörd with spaces ")),
        ("valkey_password", SecretStr("wörd with spaces ")),
        ("traces_url", SecretUrl("http://user:word@host/v1")),
        ("storage_url", SecretUrl("s3://key:secret@bucket")),
        ("valkey_url", SecretUrl("redis://user:word@host:6379/0")),
        ("namespace", "staging"),
    ],
)
def test_a_setting_can_come_from_a_file(tmp_path: Path, field: str, expected: SecretStr | SecretUrl | str) -> None:
    value = expected if isinstance(expected, str) else expected.get_secret_value()
    (tmp_path / "value").write_text(f"{value}\n")
    with environment({f"TALLY_{field.upper()}_FILE": str(tmp_path / "value")}):
        assert getattr(GatewaySettings(), field) == expected


def test_credentials_in_a_file_of_addresses_log_in(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("me:word@kafka:9092")
    with environment({"TALLY_KAFKA_BOOTSTRAP_SERVERS_FILE": str(tmp_path / "kafka")}):
        for settings in (KafkaSettings(), DeploymentSettings()):
            assert (settings.kafka_bootstrap_servers, settings.kafka_username) == ("kafka:9092", "me")
        assert StackSettings().kafka_bootstrap_servers == "me:word@kafka:9092"


def test_a_file_that_cannot_be_read_is_named_with_the_variable(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, said in (("none", ": No such file or directory."), ("empty", "the file is empty"), ("binary", "")):
        with environment({"TALLY_KAFKA_PASSWORD_FILE": str(tmp_path / name)}):
            problem = problem_of()
        assert problem.startswith(f"TALLY_KAFKA_PASSWORD_FILE: {tmp_path / name}")
        assert said in problem


def test_a_value_that_is_given_twice_is_refused_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("one")
    both = {"TALLY_KAFKA_PASSWORD": "two", "TALLY_KAFKA_PASSWORD_FILE": str(tmp_path / "password")}
    with environment(both):
        assert "TALLY_KAFKA_PASSWORD is set, too" in problem_of()
        assert "two" not in problem_of()


def test_an_empty_variable_is_an_absent_one() -> None:
    with environment({"TALLY_PORT": "", "TALLY_KAFKA_PASSWORD": "", "TALLY_KAFKA_PASSWORD_FILE": ""}):
        assert (GatewaySettings().port, GatewaySettings().kafka_password) == (8080, None)


def test_each_wrong_setting_is_named_in_one_line_without_its_value() -> None:
    with environment({"TALLY_KAFKA_REQUEST_TIMEOUT_MS": "soon-secret", "TALLY_PRODUCE_LINGER_MS": "-1"}):
        line = problem_of()
    assert "TALLY_KAFKA_REQUEST_TIMEOUT_MS: Input should be a valid integer" in line
    assert "TALLY_PRODUCE_LINGER_MS: Input should be greater than or equal to 0" in line
    assert line.endswith("`tally config show` lists all settings.")
    assert "\n" not in line
    assert "soon-secret" not in line
