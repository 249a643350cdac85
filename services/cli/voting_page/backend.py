"""The voting page's backend: it holds the API key, identifies the voters, and forwards their requests.

Copy it and replace `voter_of` by the log-in of your application. Everything that needs no key, the page reads from
the public API itself: the contest and its live results.
"""

import secrets
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

PAGE: Final = Path(__file__).parent / "page"
COOKIE: Final = "voter"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: $api; connect-src 'self' $api; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
JSON: Final = "application/json"


def voter_of(request: Request) -> str | None:
    """Return the voter's id. Here it is a random one for each browser."""
    return request.cookies.get(COOKIE)


def voting_app(api: httpx.AsyncClient) -> Starlette:
    """Build the backend; `api` is a client of the API with a key that has `votes:write` and `content:read`."""
    origin = str(api.base_url).rstrip("/")
    html = Template((PAGE / "index.html").read_text()).substitute(api=origin)
    headers = {
        "Content-Security-Policy": Template(POLICY).substitute(api=origin),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    async def page(request: Request) -> Response:
        answer = Response(html, headers=headers, media_type="text/html")
        if voter_of(request) is None:
            answer.set_cookie(
                COOKIE, secrets.token_urlsafe(16), max_age=31_536_000, httponly=True, samesite="strict"
            )
        return answer

    async def contests(_: Request) -> Response:
        running: dict[str, str | int] = {"phase": "running", "type": "voteonly", "limit": 20}
        return await passed_on(api.build_request("GET", "/contests", params=running))

    async def vote(request: Request) -> Response:
        given = await request.json() if request.headers.get("content-type") == JSON else None
        if not isinstance(given, dict):
            return JSONResponse({"detail": "Send a JSON object."}, 400)
        address = None if request.client is None else request.client.host
        body = {name: given[name] for name in ("participant_key", "vote_id") if name in given}
        return await for_voter(request, "POST", "votes", json=body | {"platform": "web", "ip": address})

    async def votes(request: Request) -> Response:
        return await for_voter(request, "GET", "votes")

    async def allowance(request: Request) -> Response:
        return await for_voter(request, "GET", "allowance")

    async def take_back(request: Request) -> Response:
        return await for_voter(request, "DELETE", f"votes/{_segment(request, 'vote')}")

    async def for_voter(request: Request, method: str, path: str, json: dict[str, Any] | None = None) -> Response:
        voter = voter_of(request)
        if voter is None:
            return JSONResponse({"detail": "Open the page first."}, 401)
        params = {"voter_id": voter} if json is None else None
        body = None if json is None else json | {"voter_id": voter}
        url = f"/contests/{_segment(request, 'contest')}/{path}"
        return await passed_on(api.build_request(method, url, params=params, json=body))

    async def passed_on(request: httpx.Request) -> Response:
        try:
            answer = await api.send(request)
        except httpx.HTTPError:
            return JSONResponse({"detail": "The service cannot be reached. Try again."}, 502)
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    return Starlette(
        routes=[
            Route("/", page),
            Route("/contests", contests),
            Route("/contests/{contest}/votes", vote, methods=["POST"]),
            Route("/contests/{contest}/votes", votes),
            Route("/contests/{contest}/votes/{vote}", take_back, methods=["DELETE"]),
            Route("/contests/{contest}/allowance", allowance),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
    )


def _segment(request: Request, name: str) -> str:
    """Return a path parameter as one segment of an address."""
    return quote(request.path_params[name], safe="")
