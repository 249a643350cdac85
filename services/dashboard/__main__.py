"""`python -m services.dashboard`: the pages as a process of its own, behind one origin with the API."""

from libs.deployment.deployment import open_alone
from libs.telemetry.environment_settings import read_settings
from libs.web.server.http_service import run_alone
from services.dashboard.app import open_module
from services.dashboard.settings import Settings

if __name__ == "__main__":
    settings = read_settings(Settings)
    run_alone("dashboard", settings, lambda tracing: open_alone(settings, tracing, open_module))
