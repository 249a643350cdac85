"""Settings of the object store."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.telemetry.redaction import SecretUrl


class StorageSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore", hide_input_in_errors=True)

    storage_url: SecretUrl = Field(
        SecretUrl(".tally/objects"),
        description="Object store for files and secrets: a directory (or file:///dir), s3://bucket, gs:// or "
        "az://. Buckets take credentials from the environment (AWS_*, GOOGLE_*, AZURE_*).",
    )
