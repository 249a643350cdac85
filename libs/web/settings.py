"""Settings of everything that listens for HTTP."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class HostSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore")

    host: str = Field("127.0.0.1", description="Where the HTTP server listens.")


class HttpSettings(HostSettings):
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
