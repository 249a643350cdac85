"""Settings of the object store."""

from pydantic import Field

from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl


class StorageSettings(EnvironmentSettings):
    storage_url: SecretUrl = Field(
        SecretUrl(".tally/objects"),
        description="Object store for files and secrets: a directory (or file:///dir), s3://bucket, gs:// or "
        "az://. Buckets take credentials from the environment (AWS_*, GOOGLE_*, AZURE_*).",
    )
