"""Transport security of Kafka clients: builds the connection arguments of every client."""

import logging
import ssl
from contextlib import suppress
from typing import Any, Final

from libs.kafka.metadata_requests import never_create_topics
from libs.kafka.settings import KafkaSettings

_connections: Final = logging.getLogger("aiokafka.conn")


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
