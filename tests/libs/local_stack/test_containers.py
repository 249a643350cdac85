"""Servers in containers, without Docker: they have the native servers' settings."""

from pathlib import Path

from libs.kafka.settings import KafkaSettings
from libs.local_stack.containers import container_kafka, kafka_environment
from libs.local_stack.kafka import JVM_OPTIONS, ClusterMember, broker_properties
from libs.telemetry.redaction import redacted

PASSWORD = "0123456789abcdef" * 4
PLACE = {"log.dirs", "controller.quorum.voters", "listeners", "advertised.listeners"}
"""Properties of where a broker runs."""


def test_its_kafka_is_the_native_one_which_accepts_its_password_alone(tmp_path: Path) -> None:
    native = broker_properties(ClusterMember(1, "id", {1: 2}), "CLIENT://:1", "127.0.0.1:1", tmp_path, PASSWORD)
    variables = kafka_environment(9092, PASSWORD)
    assert variables.pop("KAFKA_OPTS") in " ".join(JVM_OPTIONS)
    image = {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in variables.items()}
    assert {name for name, value in native.items() if image[name] != str(value)} == PLACE
    assert image.keys() == native.keys()


def test_a_container_s_address_has_the_password_and_is_printed_without_it() -> None:
    address = container_kafka("image", 9092, "volume", 1, PASSWORD).address
    settings = KafkaSettings(kafka_bootstrap_servers=address)
    assert settings.kafka_bootstrap_servers == "127.0.0.1:9092"
    assert (settings.kafka_security_protocol, settings.kafka_sasl_mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert settings.kafka_password is not None
    assert settings.kafka_password.get_secret_value() == PASSWORD
    assert PASSWORD not in repr(settings)
    assert redacted(f"Kafka: {address}") == "Kafka: tally:***@127.0.0.1:9092"


def test_credentials_in_the_address_leave_the_encryption_as_it_is_set() -> None:
    settings = KafkaSettings(
        kafka_bootstrap_servers="me:word@a:1,b:2",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-256",
    )
    assert settings.kafka_bootstrap_servers == "a:1,b:2"
    assert (settings.kafka_username, settings.kafka_security_protocol) == ("me", "SASL_SSL")
    assert settings.kafka_sasl_mechanism == "SCRAM-SHA-256"
