"""Settings of the object store."""

from pydantic import Field

from libs.storage.private_files import default_data_dir
from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl


class StorageSettings(EnvironmentSettings):
    storage_url: SecretUrl = Field(
        default_factory=lambda: SecretUrl(str(default_data_dir() / "objects")),
        description="Object store for files and secrets: a directory (or file:///dir), s3://bucket, gs:// or "
        "az://; absent: objects/ in the data directory of `tally up`. "
        "Buckets take credentials from the environment (AWS_*, GOOGLE_*, AZURE_*).",
    )
