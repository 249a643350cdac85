"""Settings of everything that talks to Valkey."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ValkeySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore")

    valkey_url: str = Field(
        "redis://127.0.0.1:6379/0", description="Address of Valkey (Redis protocol); rediss:// for TLS."
    )
    valkey_username: str = Field("", description="ACL user in Valkey, unless the URL names one.")
    valkey_password: SecretStr | None = Field(None, description="Its password, unless the URL holds one.")
    valkey_ca_file: Path | None = Field(
        None, description="PEM file of the authorities that sign Valkey's certificate; the system's by default."
    )
    valkey_certificate_file: Path | None = Field(
        None, description="PEM file of this client's certificate, for mutual TLS."
    )
    valkey_key_file: Path | None = Field(
        None, description="PEM file of that certificate's key; by default it is in the certificate's file."
    )

    @property
    def uses_tls(self) -> bool:
        return self.valkey_url.startswith("rediss://")

    @model_validator(mode="after")
    def _certificates_are_used(self) -> Self:
        """Refuses certificates beside an address that would connect without TLS."""
        if not self.uses_tls and (self.valkey_ca_file or self.valkey_certificate_file):
            raise ValueError("certificates of Valkey are set, but TALLY_VALKEY_URL does not begin with rediss://")
        return self


class ViewsSettings(ValkeySettings):
    namespace: str = Field("tally", description="Prefix of every topic and key.")
    partitions: int = Field(16, ge=1, description="Partitions of the votes topic, fixed for its life.")
