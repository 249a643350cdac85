"""Settings of everything that listens for HTTP."""

from ipaddress import ip_address

from pydantic import Field, field_validator

from libs.telemetry.settings import TelemetrySettings
from libs.web.client_address import AuditAddresses, ForwardedHeader, Proxies, parse_networks


class HostSettings(TelemetrySettings):
    """The bounds hold for each process and each port by itself."""

    host: str = Field("127.0.0.1", description="Where the HTTP server listens.")
    trusted_proxies: str = Field(
        "",
        description="Networks of trusted proxies, comma-separated: their forwarded addresses and traceparent "
        "hold, and their connections are counted in total only.",
    )
    forwarded_header: ForwardedHeader = Field(
        "x-forwarded-for",
        description="Header in which trusted proxies name the end user: x-forwarded-for or forwarded (RFC 7239).",
    )
    audit_addresses: AuditAddresses = Field(
        "full",
        description="Callers' addresses in the audit, which the log keeps for good: full, network (/24, "
        "IPv6: /48) or none.",
    )
    http_max_header_bytes: int = Field(
        32_768, ge=1024, description="Size of a request's line and headers; more: 431."
    )
    http_max_headers: int = Field(100, ge=1, description="Headers of a request; more: 431.")
    http_header_timeout_s: float = Field(
        10, gt=0, description="Time for a request's headers to come in, in seconds; later: 408."
    )
    http_idle_timeout_s: float = Field(
        65, gt=0, description="Time that a connection stays open between requests, in seconds."
    )
    http_body_timeout_s: float = Field(
        20, gt=0, description="Time that a request's body may lag behind its least rate, in seconds; more: 408."
    )
    http_body_min_rate: int = Field(1024, ge=1, description="Least rate of a request's body, in bytes a second.")
    http_max_connections: int = Field(
        10_000,
        ge=1,
        description="Connections in total; one more closes the slowest or longest idle, or is 503.",
    )
    http_max_connections_per_address: int = Field(
        1000, ge=1, description="Connections from one address (IPv6: one /64) that is no trusted proxy; more: 503."
    )
    rate_per_key: int = Field(
        5000,
        ge=0,
        description="Requests a second of a key without a rate of its own, over 10 s; 0: no limit. More: 429.",
    )
    rate_per_address: int = Field(
        100,
        ge=0,
        description="Requests a second without a key from one address (IPv6: one /64), over 10 s; 0: no limit. "
        "More: 429.",
    )
    rate_failures_per_address: int = Field(
        10,
        ge=0,
        description="Wrong keys and log-ins a second from one address, over 10 s; 0: no limit. More: 429.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    def proxies(self) -> Proxies:
        return Proxies(self.trusted_proxies, self.forwarded_header, self.audit_addresses)


class HttpSettings(HostSettings):
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
    operations_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Second port, with everything and /metrics, /operations and /readyz in detail, which the "
        "first hides then; 0: none, and the first serves them if it is on loopback.",
    )
    operations_host: str = Field("", description="Where that port listens; empty: as TALLY_HOST says.")

    @property
    def shows_operations(self) -> bool:
        """Whether `port` serves what is for operators."""
        return not self.operations_port and is_loopback(self.host)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
