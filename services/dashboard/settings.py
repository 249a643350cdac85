"""Settings of the dashboard."""

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    """It has none of its own."""
