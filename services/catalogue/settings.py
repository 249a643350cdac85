"""Settings of the catalogue service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings, OriginSettings


class Settings(DeploymentSettings, HttpSettings, OriginSettings):
    file_max_bytes: int = Field(100 << 20, ge=1, description="Largest accepted file.")
    scanner: str = Field(
        "",
        pattern=r"^(clamd://([^/?#@]+:\d+|/[^?#]+))?$",
        description="Malware scanner of files and images, clamd://host:port or clamd:///path/of/socket. Infected "
        "files are refused, and while it is unavailable all files. Without one, `is_scanned` stays false. Its "
        "StreamMaxLength must be as large as the largest file.",
    )
    account_max_bytes: int = Field(
        256 << 20,
        ge=0,
        description="Bytes of records that an account may store, as JSON; 0: no limit. Valkey keeps them in its "
        "memory.",
    )
    account_max_records: int = Field(
        200_000, ge=0, description="Records that an account may store, deleted contests included; 0: no limit."
    )
    scan_timeout_ms: int = Field(30_000, ge=1, description="Timeout of the scanner for one file or image.")
    image_max_bytes: int = Field(10_485_760, ge=1, description="Largest accepted picture.")
    image_max_pixels: int = Field(
        40_000_000,
        ge=1,
        le=80_000_000,
        description="Most pixels (width times height) of a picture; decoding takes about 12 bytes for each.",
    )
    image_cpu_ms: int = Field(20_000, ge=100, description="Most CPU time for decoding or resizing a picture.")
    fetch_timeout_ms: int = Field(10_000, ge=1, description="Timeout for fetching a picture from its URL.")
    fetch_allow: str = Field(
        "",
        description="Private hosts and networks from which pictures may be fetched, comma-separated.",
    )
