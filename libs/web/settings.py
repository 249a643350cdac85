"""Settings of everything that listens for HTTP."""

from pydantic import Field

from libs.telemetry.settings import TelemetrySettings


class HostSettings(TelemetrySettings):
    host: str = Field("127.0.0.1", description="Where the HTTP server listens.")


class HttpSettings(HostSettings):
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
