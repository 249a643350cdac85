"""Settings of HTTP servers."""

from ipaddress import ip_address
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from libs.telemetry.environment_settings import TelemetrySettings
from libs.web.door.client_address import AuditAddresses, ForwardedHeader, Proxies, parse_networks

DRAIN_S = 10
"""Seconds that requests in flight may take to finish once the port is closed."""
CLOSE_S = 10
"""Seconds after that to deliver accepted records and close connections; then the process is ended."""

VENUE: Final = {
    "http_max_connections_per_address": 10_000,
    "rate_per_address": 5_000,
    "stream_max_public_per_address": 5_000,
}
"""Limits per address for a hall whose phones share one: each opens a page of a dozen pictures, and a stream."""


class HostSettings(TelemetrySettings):
    """Address and limits of an HTTP server. Limits are per process and port."""

    host: str = Field("127.0.0.1", description="Address that the HTTP server listens on.")
    trusted_proxies: str = Field(
        "",
        description="Networks of trusted proxies, comma-separated: their forwarded addresses and traceparent are "
        "accepted, and their connections count only towards the total.",
    )
    forwarded_header: ForwardedHeader = Field(
        "x-forwarded-for",
        description="Header in which trusted proxies name the end user: x-forwarded-for or forwarded (RFC 7239).",
    )
    audit_addresses: AuditAddresses = Field(
        "full",
        description="Callers' addresses in the audit, which the log keeps permanently: full, network (/24, "
        "IPv6: /48) or none.",
    )
    limits: Literal["standard", "venue"] = Field(
        "standard",
        description="Limits per address that are not set themselves: `venue` admits a hall whose phones share one "
        "address (10,000 connections, 5,000 streams, 5,000 requests per second without a key).",
    )
    http_max_header_bytes: int = Field(
        32_768, ge=1024, description="Maximum size of a request's line and headers, in bytes; more: 431."
    )
    http_max_headers: int = Field(100, ge=1, description="Maximum number of a request's headers; more: 431.")
    http_header_timeout_s: float = Field(
        10, gt=0, description="Time to receive a request's headers, in seconds; later: 408."
    )
    http_idle_timeout_s: float = Field(
        65, gt=0, description="Time that a connection stays open between requests, in seconds."
    )
    http_body_timeout_s: float = Field(
        20, gt=0, description="Time that a request's body may lag behind its minimum rate, in seconds; more: 408."
    )
    http_body_min_rate: int = Field(
        1024, ge=1, description="Minimum rate of a request's body, in bytes per second."
    )
    http_max_connections: int = Field(
        10_000,
        ge=1,
        description="Maximum connections; one more closes the longest waiting or idle one, or is answered 503.",
    )
    http_max_connections_per_address: int = Field(
        1000,
        ge=1,
        description="Maximum connections per address (IPv6: per /64) except trusted proxies; more: 503.",
    )
    rate_per_key: int = Field(
        5000,
        ge=0,
        description="Requests per second of a key without its own rate, over 10 s; 0: no limit. More: 429.",
    )
    rate_per_address: int = Field(
        100,
        ge=0,
        description="Requests per second without a key per address (IPv6: per /64), over 10 s; 0: no limit. "
        "More: 429.",
    )
    rate_bytes_per_key: int = Field(
        4 << 20,
        ge=0,
        description="Bytes of bodies per second of a key, except votes and files, over 10 s; 0: no limit, as for "
        "a key whose own rate is 0. More: 429.",
    )
    rate_bytes_per_address: int = Field(
        1 << 20,
        ge=0,
        description="Bytes of bodies per second without a key per address, except files, over 10 s; 0: no limit. "
        "More: 429.",
    )
    rate_failures_per_address: int = Field(
        10,
        ge=0,
        description="Wrong keys and log-ins per second per address, over 10 s; 0: no limit. More: 429.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    @model_validator(mode="after")
    def _preset(self) -> Self:
        if self.limits == "venue":
            for name in VENUE.keys() & type(self).model_fields.keys() - self.model_fields_set:
                setattr(self, name, VENUE[name])
        return self

    def proxies(self) -> Proxies:
        return Proxies(self.trusted_proxies, self.forwarded_header, self.audit_addresses)


class HttpSettings(HostSettings):
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server.")
    reuse_port: bool = Field(
        False,
        description="Share the port with other processes of this user (SO_REUSEPORT): the system distributes the "
        "connections. Operators' pages and metrics, which are of one process, then need TALLY_OPERATIONS_PORT.",
    )
    operations_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Second port, which also serves /metrics, /operations and /readyz in detail; the first then "
        "hides them. 0: none, and the first serves them if it is on loopback.",
    )
    operations_host: str = Field("", description="Address of that port; empty: TALLY_HOST.")

    drain_delay_s: float = Field(
        5,
        ge=0,
        description="Time that a stopping process still serves, while /readyz answers 503, in seconds: until "
        "every load balancer has noticed. Requests then have 10 s to finish, and accepted votes 10 s to be "
        "recorded: the process must not be killed before.",
    )

    @property
    def shows_operations(self) -> bool:
        """Return whether `port` serves the routes for operators."""
        return not self.operations_port and not self.reuse_port and is_loopback(self.host)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class OriginSettings(TelemetrySettings):
    """The address at which clients reach the API."""

    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#]+)?$",
        description="Public origin of the API, for addresses of files and pictures; by default the origin of each "
        "request.",
    )
