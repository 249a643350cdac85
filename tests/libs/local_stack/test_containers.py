"""Servers in containers, without Docker: the image's settings run on a native broker."""

from collections.abc import AsyncIterator

import pytest

from libs.kafka.settings import KafkaSettings
from libs.local_stack import ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.containers import container_kafka, kafka_environment
from libs.local_stack.kafka import NativeKafka, answers
from libs.local_stack.startup_report import Silence
from libs.telemetry.redaction import redacted

PASSWORD = "0123456789abcdef" * 4
PLACE = ("KAFKA_LOG_DIRS", "KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_LISTENERS")
"""Settings of the container's data and controller; those of the native broker differ."""


class BrokerOfTheImage(NativeKafka):
    """A native broker with the properties that the image makes of its variables."""

    def _properties(self) -> dict[str, object]:
        listeners = f"CLIENT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}"
        made = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in kafka_environment(self._port, PASSWORD).items()
            if name not in PLACE
        }
        return super()._properties() | made | {"listeners": listeners}


@pytest.fixture(scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NativeKafka]:
    port, controller_port = ports.free_ports(2)
    data_dir, reaper = tmp_path_factory.mktemp("image"), Reaper()
    kafka = BrokerOfTheImage(
        port, controller_port, data_dir / "kafka", data_dir / "kafka.log", reaper, report=Silence()
    )
    kafka.address = f"tally:{PASSWORD}@127.0.0.1:{port}"
    try:
        await kafka.start()
        yield kafka
    finally:
        await kafka.stop()
        reaper.close()


@pytest.mark.stack
async def test_its_kafka_accepts_its_password_alone(broker: NativeKafka) -> None:
    assert await answers(broker.address)
    assert not await answers(broker.address.replace(PASSWORD, "guessed"), timeout_s=2)
    assert not await answers(broker.address.partition("@")[2], timeout_s=2)


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
