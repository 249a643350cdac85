"""The dashboard's pages and assets: the same for all users, so that they can be cached and contain no data.

The pages read their data from the API, with the browser's session; `html/shell.html` is their common frame.
A wall is a whole page of its own, without a log-in, since an audience sees it.
"""

from html import escape
from importlib.metadata import files
from importlib.resources import files as resources
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from libs.catalogue.contests.wall_links import Viewers
from libs.catalogue.resource_table import ACCOUNT_KEY, ACCOUNTS
from libs.catalogue.schemas.app import AccountSettings
from libs.contracts.catalogue_events import ApiKey
from libs.contracts.validation import Problem, ValidationFailed
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.responses import NO_STORE, json_response
from services.dashboard.session_routes import require_page

HERE: Final = Path(str(resources(__package__)))
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-src 'self'; frame-ancestors $parents"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
PAGES: Final = {
    "/dashboard": ("contests", "Contests"),
    "/dashboard/new": ("studio", "Studio"),
    "/dashboard/contests/{contest_key}/edit": ("studio", "Studio"),
    "/dashboard/contests/{contest_key}": ("contest", "Contest"),
    "/dashboard/keys": ("keys", "API keys"),
    "/dashboard/operations": ("operations", "Operations"),
}
"""Name (of its HTML, style and script) and title of each page, by path."""
WALL: Final = "/dashboard/contests/{contest_key}/wall"


class Assets(StaticFiles):
    """Files that browsers cache and revalidate by their ETag."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update({"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"})
        return response


def page_routes(language: str = "auto") -> list[BaseRoute]:
    """Return the routes of pages and assets; `language` is the pages' until a user chooses another."""
    shell = _whole("shell")
    pages = [Route(path, _page(shell, language, *page)) for path, page in PAGES.items()]
    wall = _whole("wall").substitute(language=language, title="Contest")
    pages.append(Route(WALL, _served(wall, parents="'self'")))  # the studio shows it in a frame
    worker = (HERE / "assets" / "worker.js").read_text()
    pages.append(Route("/dashboard/worker.js", _served(worker, "text/javascript")))  # of all pages below its path
    chart = Mount("/dashboard/assets/uplot", Assets(directory=_chart_library()))
    return [*pages, chart, Mount("/dashboard/assets", Assets(directory=HERE / "assets"))]


def _whole(name: str) -> Template:
    """Return the page with the head that all whole pages share."""
    head, page = ((HERE / "html" / f"{part}.html").read_text() for part in ("head", name))
    return Template(page.replace("$head\n", head))


def _page(shell: Template, language: str, name: str, title: str) -> Any:
    body = (HERE / "html" / f"{name}.html").read_text()
    return _served(shell.substitute(language=language, name=name, title=escape(title), body=body))


def _served(text: str, media_type: str = "text/html", parents: str = "'none'") -> Any:
    headers = HEADERS | {"Content-Security-Policy": POLICY.replace("$parents", parents)}

    async def page(_: Request) -> Response:
        return Response(text, headers=headers, media_type=media_type)

    return page


def _chart_library() -> Path:
    """Return uPlot's directory, which the build put beside the packages (`build_hook.py`)."""
    found = next(file for file in files("tallykeeper") or () if file.name == "uPlot.iife.js")
    return Path(str(found.locate())).parent


MOST_CHARACTERS = 300
CODE_HEADERS: Final = {"Cache-Control": "private, max-age=86400", "X-Content-Type-Options": "nosniff"}


def shared_routes(viewers: Viewers, views: CatalogueViews) -> list[BaseRoute]:
    """Return the routes that pages and linked walls read: the web address in `text` as a QR code, and the name
    and looks of the account."""

    async def account_of(request: Request) -> str:
        viewer = await viewers.authenticate(request.scope)
        return (require_page(viewer) if isinstance(viewer, ApiKey) else viewer).account

    async def brand(request: Request) -> Response:
        stored = await views.get(await account_of(request), ACCOUNTS.name, ACCOUNT_KEY)
        settings = AccountSettings.model_validate({} if stored is None else stored.document)
        looks = {"name": settings.brand_name, **settings.looks.model_dump()}
        return json_response(looks, 200, NO_STORE)

    async def code(request: Request) -> Response:
        await account_of(request)
        text = request.query_params.get("text", "")
        if not text.startswith(("https://", "http://")) or len(text) > MOST_CHARACTERS:
            fault = f"text must be a web address of at most {MOST_CHARACTERS} characters"
            raise ValidationFailed([Problem("", fault)])
        import segno  # noqa: PLC0415 (delays the start)

        svg = BytesIO()
        segno.make(text, error="m", micro=False).save(svg, kind="svg", border=3, light="#fff")
        return Response(svg.getvalue(), headers=CODE_HEADERS, media_type="image/svg+xml")

    return [Route("/dashboard/code.svg", code), Route("/dashboard/brand", brand)]
