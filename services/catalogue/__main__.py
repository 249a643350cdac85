"""`python -m services.catalogue`: the catalogue alone."""

from libs.web.service import run_alone
from services.catalogue.app import TITLE, open_surface
from services.catalogue.settings import Settings

if __name__ == "__main__":
    settings = Settings()
    run_alone(TITLE, open_surface(settings), settings.host, settings.port)
