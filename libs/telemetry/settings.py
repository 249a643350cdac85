"""Settings of logs and traces, for every process."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl

Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(str.lower)]


def _is_http(url: SecretUrl) -> SecretUrl:
    if not re.fullmatch("(https?://.+)?", url.get_secret_value()):
        raise ValueError("must begin with http:// or https://")
    return url


class TelemetrySettings(EnvironmentSettings):
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of logs; auto is text on a terminal, JSON elsewhere."
    )
    log_level: Level = Field("info", description="Minimum log level: debug, info, warning, error, critical.")
    traces_url: Annotated[SecretUrl, AfterValidator(_is_http)] = Field(
        SecretUrl(""),
        description="URL for traces (OTLP over HTTP), such as http://collector:4318/v1/traces; empty: "
        "OpenTelemetry's own variables decide (OTEL_EXPORTER_OTLP_ENDPOINT, ...), or none.",
    )
    traces_ratio: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Fraction of requests that are traced, unless a trusted proxy's traceparent decides.",
    )
