"""Settings of purchases."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class PurchaseSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore", hide_input_in_errors=True)

    purchase_package_check: Literal["refuse", "report"] = Field(
        "refuse",
        description="Treatment of a purchase of more votes than its package has: `refuse` answers 422, `report` "
        "records it and logs a warning.",
    )
