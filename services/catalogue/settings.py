"""Settings of the catalogue service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#]+)?$",
        description="Origin at which callers reach the API, for upload addresses; each request's own by default.",
    )
    file_max_bytes: int = Field(100 << 20, ge=1, description="Largest file that is taken.")
    scanner: str = Field(
        "",
        pattern=r"^(clamd://([^/?#@]+:\d+|/[^?#]+))?$",
        description="Malware scanner of files and images, clamd://host:port or clamd:///path/of/socket; what it "
        "recognises is refused, and while it is away nothing is taken. Without one, `is_scanned` stays false. Its "
        "StreamMaxLength has to be as large as the largest file.",
    )
    scan_timeout_ms: int = Field(30_000, ge=1, description="How long the scanner may take for one file or image.")
    image_max_bytes: int = Field(10_485_760, ge=1, description="Largest picture that is taken.")
    image_max_pixels: int = Field(
        40_000_000,
        ge=1,
        le=80_000_000,
        description="Most pixels (width times height) of a picture; each takes some 12 bytes while it is read.",
    )
    image_cpu_ms: int = Field(
        20_000, ge=100, description="Most time of a processor that reading or shrinking a picture may take."
    )
    fetch_timeout_ms: int = Field(10_000, ge=1, description="How long fetching a picture from its URL may take.")
    fetch_allow: str = Field(
        "",
        description="Hosts and networks that pictures may be fetched from though not public, parted by commas.",
    )
