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
    image_max_bytes: int = Field(10_485_760, ge=1, description="Largest picture that is taken.")
    image_max_pixels: int = Field(
        40_000_000,
        ge=1,
        le=80_000_000,
        description="Most pixels (width times height) of a picture; each takes some 12 bytes while it is read.",
    )
    fetch_timeout_ms: int = Field(10_000, ge=1, description="How long fetching a picture from its URL may take.")
    fetch_allow: str = Field(
        "",
        description="Hosts and networks that pictures may be fetched from though not public, parted by commas.",
    )
