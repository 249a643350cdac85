"""`python -m services.gateway`: the whole HTTP API in one process."""

import logging

import uvloop

from libs.web.service import serve
from services.gateway.app import open_app
from services.gateway.settings import Settings


async def main() -> None:
    settings = Settings()
    async with open_app(settings) as app:
        await serve(app, settings.host, settings.port)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells the URLs that callers have fetched
    uvloop.run(main())
