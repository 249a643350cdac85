"""Transport security of the FastStream broker, from the shared settings of Kafka clients."""

from typing import Final

from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


def broker_security(settings: KafkaSettings) -> BaseSecurity:
    """Return the security options of `connection` as a FastStream object. Raises as `connection`."""
    context = connection(settings)["ssl_context"]
    if not settings.uses_sasl or settings.kafka_password is None:
        return BaseSecurity(ssl_context=context)
    security = _SASL[settings.kafka_sasl_mechanism]
    return security(settings.kafka_username, settings.kafka_password.get_secret_value(), ssl_context=context)
