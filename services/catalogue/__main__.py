"""`python -m services.catalogue`: runs the catalogue service alone."""

from libs.deployment.deployment import open_alone
from libs.telemetry.environment_settings import read_settings
from libs.web.server.http_service import run_alone
from services.catalogue.app import open_module
from services.catalogue.settings import Settings

if __name__ == "__main__":
    settings = read_settings(Settings)
    run_alone("catalogue", settings, lambda tracing: open_alone(settings, tracing, open_module))
