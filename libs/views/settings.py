"""Settings of the connection to Valkey and of the views."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.telemetry.redaction import SecretUrl

SCHEMES: Final = ("redis", "rediss", "unix")


def _is_valkey(url: SecretUrl) -> SecretUrl:
    """Validate the URL here: the client library's error could quote a part of the password."""
    with suppress(ValueError):
        parts = urlsplit(url.get_secret_value())
        if parts.scheme in SCHEMES and (parts.port is None or parts.port > 0):
            return url
    raise ValueError("must be like redis://user:password@host:6379/0, special characters of a password as %40")


ValkeyUrl = Annotated[SecretUrl, AfterValidator(_is_valkey)]


class ValkeySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore", hide_input_in_errors=True)

    valkey_url: ValkeyUrl = Field(
        SecretUrl("redis://127.0.0.1:6379/0"), description="Address of Valkey (Redis protocol); rediss:// for TLS."
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
        return self.valkey_url.get_secret_value().startswith("rediss://")

    @model_validator(mode="after")
    def _certificates_are_used(self) -> Self:
        """Reject certificates if the URL connects without TLS."""
        if not self.uses_tls and (self.valkey_ca_file or self.valkey_certificate_file):
            raise ValueError("certificates of Valkey are set, but TALLY_VALKEY_URL does not begin with rediss://")
        return self


class ViewsSettings(ValkeySettings):
    namespace: str = Field("tally", description="Prefix of every topic and key.")
    partitions: int = Field(16, ge=1, description="Partitions of the votes topic, fixed for its life.")
