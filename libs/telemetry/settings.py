"""Settings of what every process tells of itself."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(str.lower)]


class TelemetrySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore")

    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="How a process writes its log; auto is text on a terminal, JSON elsewhere."
    )
    log_level: Level = Field(
        "info", description="Least level that is logged: debug, info, warning, error, critical."
    )
    traces_url: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="Where traces are sent, as http://collector:4318/v1/traces (OTLP over HTTP); empty: nowhere.",
    )
    traces_ratio: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the requests that are traced; a caller's traceparent decides for its own.",
    )
