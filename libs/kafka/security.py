"""Connection arguments of every Kafka client: transport security, and requests that create no topic."""

import logging
import ssl
from contextlib import suppress
from typing import Any, Final

import aiokafka.admin.client
import aiokafka.client
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequestStruct

from libs.kafka.settings import KafkaSettings

_connections: Final = logging.getLogger("aiokafka.conn")
OLDEST: Final = 4
"""The version of the request that first says whether topics may be created."""


class CreatingNone(MetadataRequest):  # type: ignore[misc]  # of a module without types
    """A request for the metadata of topics, of which the missing ones stay missing (Kafka 0.11 and later)."""

    def __init__(self, topics: list[str] | None = None) -> None:
        super().__init__(topics, allow_auto_topic_creation=False)

    def build(self, request_struct_class: type[MetadataRequestStruct]) -> MetadataRequestStruct:
        """Build it for a version that the broker has. Raises `IncompatibleBrokerVersion` for an old one."""
        if request_struct_class.API_VERSION < OLDEST:
            raise IncompatibleBrokerVersion("Kafka must be 0.11 or newer")
        return super().build(request_struct_class)


def never_create_topics() -> None:
    """Make all clients of this process ask without creating topics; idempotent.

    Brokers create the topics that aiokafka asks for by default, with one partition and a retention that deletes
    votes. aiokafka 0.14 has no option against it, so its request is replaced.
    """
    modules: list[Any] = [aiokafka.client, aiokafka.admin.client]
    for module in modules:
        module.MetadataRequest = CreatingNone


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """Return the common arguments of aiokafka clients: addresses, request timeout, TLS and SASL.

    From then on no client of this process creates a topic by asking for it. Reads the certificate files at each
    call, so that a new client uses renewed ones. Raises `OSError` and `ssl.SSLError` for unusable files.
    """
    never_create_topics()
    arguments: dict[str, Any] = {
        "bootstrap_servers": settings.kafka_bootstrap_servers,
        "request_timeout_ms": settings.kafka_request_timeout_ms,
        "security_protocol": settings.kafka_security_protocol,
        "ssl_context": _ssl_context(settings),
    }
    if not settings.uses_tls and settings.is_on_loopback:
        _connections.addFilter(_is_no_password_in_clear)
    if settings.uses_sasl and settings.kafka_password is not None:
        arguments |= {
            "sasl_mechanism": settings.kafka_sasl_mechanism,
            "sasl_plain_username": settings.kafka_username,
            "sasl_plain_password": settings.kafka_password.get_secret_value(),
        }
    return arguments


def _is_no_password_in_clear(record: logging.LogRecord) -> bool:
    """Drop aiokafka's warning, one for each connection, where a password does not leave the machine."""
    return "in the clear" not in record.getMessage()


class _PromptClose(ssl.SSLObject):
    """Closes a connection without waiting for the peer's close_notify.

    TLS 1.3 allows a peer to omit it, and Kafka does; event loops then wait 30 s, and aiokafka's clients too.
    No data is lost: Kafka's responses are length-prefixed.
    """

    def unwrap(self) -> None:
        with suppress(ssl.SSLWantReadError):
            super().unwrap()


def _ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    if not settings.uses_tls:
        return None
    context = ssl.create_default_context(cafile=settings.kafka_ca_file)
    context.sslobject_class = _PromptClose
    if settings.kafka_certificate_file is not None:
        context.load_cert_chain(settings.kafka_certificate_file, settings.kafka_key_file)
    return context
