"""`python -m services.ingestion`: ingestion as a process of its own."""

from libs.web.service import run_alone
from services.ingestion.app import open_surface
from services.ingestion.settings import Settings


def main() -> None:
    settings = Settings()
    run_alone("Tallykeeper ingestion", open_surface(settings), settings.host, settings.port)


if __name__ == "__main__":
    main()
