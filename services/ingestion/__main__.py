"""`python -m services.ingestion`: ingestion as a process of its own."""

from libs.deployment.deployment import open_alone
from libs.telemetry.environment_settings import read_settings
from libs.web.server.http_service import run_alone
from services.ingestion.app import open_module
from services.ingestion.settings import Settings

if __name__ == "__main__":
    settings = read_settings(Settings)
    run_alone("ingestion", settings, lambda tracing: open_alone(settings, tracing, open_module))
