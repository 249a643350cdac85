"""Settings of everything that talks to Valkey."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ViewsSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore")

    valkey_url: str = Field("redis://127.0.0.1:6379/0", description="Address of Valkey (Redis protocol).")
    namespace: str = Field("tally", description="Prefix of every topic and key.")
    partitions: int = Field(16, ge=1, description="Partitions of the votes topic, fixed for its life.")
