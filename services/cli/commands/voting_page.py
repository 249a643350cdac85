"""`tally voting-page`: runs the example of a voting application, against any deployment."""

from typing import Annotated
from urllib.parse import urlsplit

import uvicorn
from typer import BadParameter, Option

from services.cli.voting_page.backend import voter_secret_from, voting_app
from services.cli.voting_page.server import page_client


def voting_page(
    origin: Annotated[
        str, Option(help="Address at which browsers open the page, such as https://vote.example; no path.")
    ],
    url: Annotated[str, Option(envvar="TALLY_URL", help="The API, as this process reaches it.")],
    api_key: Annotated[
        str,
        Option(
            envvar="TALLY_API_KEY",
            help="A key with `votes:write` and `content:read`. Better as the variable: arguments are visible.",
        ),
    ],
    public_url: Annotated[str, Option(help="The API, as browsers reach it; by default the same.")] = "",
    trusted_proxies: Annotated[
        str, Option(help="Networks of proxies, comma-separated, whose X-Forwarded-For names the voter's address.")
    ] = "",
    voter_secret: Annotated[
        str,
        Option(
            envvar="TALLY_VOTER_SECRET",
            help="Signs the voters' ids; by default derived from the API key: with another key all are new.",
        ),
    ] = "",
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on.")] = 8081,
) -> None:
    """Run the voting page's backend in the foreground: it holds the API key and names the voters.

    It is an example to copy: `services/cli/voting_page`.
    """
    for address, option in ((origin, "--origin"), (url, "--url"), (public_url or url, "--public-url")):
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
            raise BadParameter("must be an origin such as https://vote.example, without a path", param_hint=option)
    tally = page_client(url, api_key)
    secret = voter_secret or voter_secret_from(api_key)
    try:
        app = voting_app(tally, origin, secret, public_url or url, trusted_proxies)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="--trusted-proxies") from None
    uvicorn.run(app, host=host, port=port, proxy_headers=False, lifespan="off")
