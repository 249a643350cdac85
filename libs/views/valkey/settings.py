"""Settings of the connection to Valkey and of the views."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl

DEFAULT_PORT: Final = 6379
SCHEMES: Final = ("redis", "rediss", "unix")


def _is_valkey(url: SecretUrl) -> SecretUrl:
    """Validate the URL here: the client library's error could quote a part of the password."""
    with suppress(ValueError):
        parts = [urlsplit(each) for each in server_urls(url.get_secret_value())]
        if all(each.scheme in SCHEMES and (each.port is None or each.port > 0) for each in parts):
            return url
    raise ValueError(
        "must be like redis://user:password@host:6379/0, of a cluster redis://user:password@one:6379,two:6379; "
        "special characters of a password as %40"
    )


def server_urls(url: str) -> list[str]:
    """Return a URL for each of the servers that `url` names, comma-separated: several are of a cluster."""
    parts = urlsplit(url)
    user, at, servers = parts.netloc.rpartition("@")
    if "," not in servers:
        return [url]
    return [parts._replace(netloc=f"{user}{at}{server}").geturl() for server in servers.split(",")]


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a URL with one server."""
    parts = urlsplit(url)
    return parts.hostname or "localhost", parts.port or DEFAULT_PORT


def with_address(url: str, host: str, port: int) -> str:
    """Return a URL of one server with another host and port."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(
        netloc=f"{user}{at}[{host}]:{port}" if ":" in host else f"{user}{at}{host}:{port}"
    ).geturl()


ValkeyUrl = Annotated[SecretUrl, AfterValidator(_is_valkey)]


class ValkeySettings(EnvironmentSettings):
    valkey_url: ValkeyUrl = Field(
        SecretUrl("redis://127.0.0.1:6379/0"),
        description="Address of Valkey (Redis protocol); rediss:// for TLS. For a cluster, at least two of its "
        "servers: redis://host1:6379,host2:6379.",
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

    valkey_failover_ms: int | None = Field(
        None,
        ge=1,
        description="Time that a primary must be away before a replica is promoted, in milliseconds; needed with "
        "Sentinel or another failover. By default a cluster's `cluster-node-timeout`.",
    )
    valkey_min_replicas_max_lag_s: int | None = Field(
        None,
        ge=1,
        description="States the servers' `min-replicas-max-lag`, in seconds, where this process may not read it; "
        "`min-replicas-to-write` is then at least 1.",
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
    partitions: int = Field(
        16,
        ge=1,
        description="Partitions of the votes' first topic, fixed for its life; `tally topics grow` adds topics.",
    )
