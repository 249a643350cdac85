"""The voting page's backend: it holds the API key, identifies the voters, and forwards their requests.

Copy it and replace `voter_of` by the log-in of your application. The official client is `libs.client` here, in a
program of yours `tallykeeper` of the distribution `tallykeeper-client`. Everything that needs no key, the page
reads from the public API itself: the contest and its live results.

`tally voting-page` runs it. It trusts no header but its own cookie, and the proxies that it is given to name the
voter's address in `X-Forwarded-For`: with a server of your own turn off what takes any proxy's word, in uvicorn
`proxy_headers=False`.
"""

import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import urlsplit

from itsdangerous import BadSignature, Signer
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from libs.client import JAVASCRIPT, Accepted, ApiError, AsyncClient, NoAnswer, Problem

PAGE: Final = Path(__file__).parent / "page"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: $api; connect-src 'self' $api; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
JSON: Final = "application/json"
YEAR_S: Final = 31_536_000
OF_VOTE: Final[tuple[str, ...]] = ("participant_key", "vote_id", "rating", "positions")
HOP: Final = re.compile(r"\[(.+)\](?::\d+)?|([^:]+):\d+")
"""An address in `X-Forwarded-For` with brackets or a port, as some proxies send it."""
MOST_BYTES: Final = 10_000
"""Size of a request's body; a vote takes some hundred bytes."""
MOST_LISTED: Final = 20
CreateSample = Callable[[Request], Awaitable[Response]]
"""Handles the button that creates a sample contest."""


def voter_secret_from(api_key: str) -> str:
    """Derive the secret that signs the voters' ids, so that no cookie is made with the API key itself."""
    return hmac.digest(api_key.encode(), b"tallykeeper voting page: ids of voters", "sha256").hex()


class SignedVoters:
    """The voters of this page: a random id for each browser, in a signed cookie, so that nobody can choose one.

    The prefix keeps them apart from the ids of your application's users. Over HTTPS the cookie is `__Host-`: no
    neighbouring host can set it. Over plain HTTP, as on your own machine, browsers accept no such name.
    """

    def __init__(self, secret: str, is_https: bool) -> None:
        self._signer = Signer(secret, salt="voter")
        self._is_https = is_https
        self._cookie = "__Host-voter" if is_https else "voter"

    def voter_of(self, request: Request) -> str | None:
        """Return the voter's id, None without one."""
        try:
            return self._signer.unsign(request.cookies.get(self._cookie, "")).decode()
        except (BadSignature, UnicodeError):
            return None

    def welcome(self, answer: Response) -> None:
        """Give the browser an id."""
        signed = self._signer.sign(f"page:{secrets.token_urlsafe(16)}").decode()
        answer.set_cookie(
            self._cookie, signed, max_age=YEAR_S, httponly=True, samesite="strict", secure=self._is_https
        )


class OwnPageWrites:
    """Refuses writes of other origins' pages, which browsers send with the voter's cookie."""

    def __init__(self, app: ASGIApp, origin: str) -> None:
        self._app = app
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_write = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        if is_write and Headers(scope=scope).get("origin") != self._origin:
            detail = {"code": "forbidden", "detail": "Vote on this page's own address."}
            await JSONResponse(detail, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def voting_app(
    tally: AsyncClient,
    origin: str,
    secret: str,
    public_api: str,
    trusted_proxies: str = "",
    create_sample: CreateSample | None = None,
) -> Starlette:
    """Build the backend that browsers open at `origin`, such as https://vote.example.

    `tally` has a key with `votes:write` and `content:read` and no other permission, and less patience than the
    page; `secret` signs the voters' ids: keep it, or all are new voters. `public_api` is the API's origin for
    browsers; `trusted_proxies` are comma-separated networks. With `create_sample` everybody who opens the page may
    create contests. Raises `ValueError` for other networks.
    """
    voters = SignedVoters(secret, is_https=origin.startswith("https:"))
    proxies = [ip_network(part.strip(), strict=False) for part in trusted_proxies.split(",") if part.strip()]
    html = Template((PAGE / "index.html").read_text()).substitute(
        api=public_api, sample="hidden" if create_sample is None else ""
    )
    headers = {
        "Content-Security-Policy": Template(POLICY).substitute(api=public_api),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    async def page(request: Request) -> Response:
        answer = Response(html, headers=headers, media_type="text/html")
        if voters.voter_of(request) is None:
            voters.welcome(answer)
        return answer

    async def contests(_: Request) -> Response:
        found = await tally.get("/contests", phase="running", limit=100)
        listed = [each for each in found["data"] if is_listed(each)]
        shown = [{"key": each["key"], "title": each["title"]} for each in listed[:MOST_LISTED]]
        return JSONResponse({"data": shown})

    async def vote(request: Request) -> Response:
        contest, voter = segment(request, "contest"), signed_in(request)
        given = await json_object(request)
        body: dict[str, Any] = {name: given[name] for name in OF_VOTE if name in given}
        body |= {"platform": "web", "ip": address_of(request, proxies), "voter_id": voter}
        outcome = await tally.vote(contest, **body)
        if isinstance(outcome, Accepted):
            return JSONResponse(dict(outcome.answer), 201)
        tally.store.remove([outcome.vote])  # the page keeps a vote that is undecided, and sends it again
        return refused(outcome.problem)

    async def votes(request: Request) -> Response:
        return JSONResponse(await tally.votes(segment(request, "contest"), voter_id=signed_in(request)))

    async def allowance(request: Request) -> Response:
        return JSONResponse(await tally.allowance(segment(request, "contest"), voter_id=signed_in(request)))

    async def take_back(request: Request) -> Response:
        contest, vote = segment(request, "contest"), segment(request, "vote")
        await tally.remove(contest, vote, voter_id=signed_in(request))
        return Response(status_code=204)

    def signed_in(request: Request) -> str:
        voter = voters.voter_of(request)
        if voter is None:
            raise failure(401, "unauthorized", "Open the page first.")
        return voter

    async def failed(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError | NoAnswer)
        return refused(error.problem)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/contests", contests),
            Route("/contests/{contest}/votes", vote, methods=["POST"]),
            Route("/contests/{contest}/votes", votes),
            Route("/contests/{contest}/votes/{vote}", take_back, methods=["DELETE"]),
            Route("/contests/{contest}/allowance", allowance),
            Route("/page/tallykeeper.js", client_script),
            Mount("/page", StaticFiles(directory=PAGE)),
            *([] if create_sample is None else [Route("/sample", create_sample, methods=["POST"])]),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[urlsplit(origin).hostname or ""], www_redirect=False),
            Middleware(OwnPageWrites, origin=origin),
        ],
        exception_handlers={ApiError: failed, NoAnswer: failed},
    )


async def client_script(_: Request) -> Response:
    return FileResponse(JAVASCRIPT, media_type="text/javascript")


def failure(status: int, code: str, detail: str) -> ApiError:
    """Build an error of the backend itself, in the service's form: the page's client knows what it decides."""
    return ApiError(Problem.of(status, {"code": code, "detail": detail}))


def refused(problem: Problem | None) -> Response:
    """Pass an error on. Without any there was no answer, so the page asks again, with the same id."""
    if problem is None:
        return JSONResponse({"code": "unreachable", "detail": "The service cannot be reached."}, 503)
    waits = {"Retry-After": f"{problem.retry_after_s:.0f}"} if problem.retry_after_s else None
    return JSONResponse({"detail": problem.detail, **problem.data}, problem.status, waits)


def is_listed(contest: dict[str, Any]) -> bool:
    """Return whether strangers may find the contest, not only those who were given its address."""
    rules = contest.get("contest_config") or {}
    return rules.get("contest_visibility") != "not_listed"


def address_of(request: Request, proxies: Sequence[IPv4Network | IPv6Network]) -> str | None:
    """Return the voter's address: the last one before the trusted proxies; None if they name none."""
    forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    peer = [] if request.client is None else [request.client.host]
    for hop in reversed([*forwarded, *peer]):
        found = HOP.fullmatch(hop.strip())
        host = hop.strip() if found is None else found[found.lastindex or 0]
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return None
        address = (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
        if not any(address in network for network in proxies):
            return str(address)
    return None


async def json_object(request: Request) -> dict[str, Any]:
    """Return the body, a small JSON object. Raises `ApiError`."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise failure(413, "payload_too_large", f"Send at most {MOST_BYTES} bytes.")
    try:
        given = json.loads(body) if request.headers.get("content-type") == JSON else None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise failure(400, "malformed_json", "Send a JSON object.")
    return given


def segment(request: Request, name: str) -> str:
    """Return a path parameter that is one segment of an address. Raises `ApiError` if it leads elsewhere."""
    value: str = request.path_params[name]
    if not value.strip(".") or not value.isprintable() or not set("/\\").isdisjoint(value):
        raise failure(404, "not_found", "There is nothing at this address.")
    return value
