"""`python -m services.catalogue`: runs the catalogue service alone."""

from libs.web.server.http_service import run_alone
from services.catalogue.app import open_module
from services.catalogue.settings import Settings

if __name__ == "__main__":
    settings = Settings()
    run_alone("catalogue", settings, lambda tracing: open_module(settings, tracing=tracing))
