"""`python -m services.query`: the query service as a process of its own."""

from libs.web.service import run_alone
from services.query.app import open_surface
from services.query.settings import Settings


def main() -> None:
    settings = Settings()
    run_alone("Tallykeeper query", open_surface(settings), settings.host, settings.port)


if __name__ == "__main__":
    main()
