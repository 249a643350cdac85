"""Settings of a gateway that a test opens in its own process, beside a running stack."""

from libs.deployment.settings import DeploymentAddresses
from services.gateway.settings import Settings


def settings_beside(stack: DeploymentAddresses) -> Settings:
    """Return the settings of one more gateway of the stack's deployment."""
    return Settings(
        kafka_bootstrap_servers=stack.kafka,
        valkey_url=stack.valkey,
        namespace=stack.namespace,
        partitions=stack.partitions,
        storage_url=stack.storage_url,
    )
