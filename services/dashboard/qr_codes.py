"""QR codes of addresses to vote at, for the pages."""

from io import BytesIO

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.contracts.validation import Problem, ValidationFailed
from libs.web.auth import Authenticator
from services.dashboard.session_routes import require_page

MOST_CHARACTERS = 300
HEADERS = {"Cache-Control": "private, max-age=86400", "X-Content-Type-Options": "nosniff"}


def code_route(auth: Authenticator) -> Route:
    """Return the route that draws the web address in `text` as a QR code (SVG)."""

    async def code(request: Request) -> Response:
        require_page(await auth.authenticate(request.scope))
        text = request.query_params.get("text", "")
        if not text.startswith(("https://", "http://")) or len(text) > MOST_CHARACTERS:
            fault = f"text must be a web address of at most {MOST_CHARACTERS} characters"
            raise ValidationFailed([Problem("", fault)])
        import segno  # noqa: PLC0415 (delays the start)

        svg = BytesIO()
        segno.make(text, error="m", micro=False).save(svg, kind="svg", border=3, light="#fff")
        return Response(svg.getvalue(), headers=HEADERS, media_type="image/svg+xml")

    return Route("/dashboard/code.svg", code)
