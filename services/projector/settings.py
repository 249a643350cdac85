"""Settings of the projector service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.projection.settings import ProjectorSettings
from libs.web.settings import HostSettings


class Settings(DeploymentSettings, ProjectorSettings, HostSettings):
    """Settings of the log, the views, and the consumer group."""

    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port of the projector's /metrics, /livez and /readyz; 0: none."
    )

    source_grace_s: float = Field(
        900, ge=0, description="Time for a contest's external sources to report after its end, in seconds."
    )
