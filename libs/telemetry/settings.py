"""Settings of what every process tells of itself."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.telemetry.redaction import SecretUrl

Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(str.lower)]


def _is_http(url: SecretUrl) -> SecretUrl:
    if not re.fullmatch("(https?://.+)?", url.get_secret_value()):
        raise ValueError("must begin with http:// or https://")
    return url


class TelemetrySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore", hide_input_in_errors=True)

    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="How a process writes its log; auto is text on a terminal, JSON elsewhere."
    )
    log_level: Level = Field(
        "info", description="Least level that is logged: debug, info, warning, error, critical."
    )
    traces_url: Annotated[SecretUrl, AfterValidator(_is_http)] = Field(
        SecretUrl(""),
        description="Where traces are sent, as http://collector:4318/v1/traces (OTLP over HTTP); empty: nowhere.",
    )
    traces_ratio: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the requests that are traced; a trusted proxy's traceparent decides for its own.",
    )
