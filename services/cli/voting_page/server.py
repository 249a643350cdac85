"""Serves the voting page beside a local stack, in the process of `tally up` or `tally demo`."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from libs.local_stack import ports
from services.cli.commands.demo.sample_contest import DemoFailed, create_sample
from services.cli.voting_page.backend import voting_app

HOST: Final = "127.0.0.1"
STOP_S: Final = 1
RENEWAL_S: Final = 60
"""Seconds between renewals in the sample contest, short enough to watch one."""


class _Server(uvicorn.Server):
    """Leaves signals to the command that runs it."""

    def install_signal_handlers(self) -> None:
        pass

    def capture_signals(self) -> Any:
        return nullcontext()


@asynccontextmanager
async def serve_voting_page(stack: Mapping[str, Any]) -> AsyncIterator[str]:
    """Serve the page for a stack, on the port after its own if that is free; yield the address."""
    headers = {"authorization": f"Bearer {stack['api_key']}"}
    async with httpx.AsyncClient(base_url=stack["base_url"], headers=headers, timeout=10, trust_env=False) as api:
        with socket.create_server((HOST, _port_beside(stack["base_url"]))) as listening:
            app = voting_app(api)
            app.router.routes.append(Route("/sample", _creator(api), methods=["POST"]))
            config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=STOP_S)
            server = _Server(config)
            serving = asyncio.create_task(server.serve([listening]))
            try:
                yield f"http://{HOST}:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving


def _creator(api: httpx.AsyncClient) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of the button that creates a sample contest; it is no part of the backend to copy."""

    async def create(_: Request) -> Response:
        try:
            sample = await create_sample(api, renewal={"cooldown": RENEWAL_S})
        except DemoFailed as error:
            return JSONResponse({"detail": error.message}, 502)
        return JSONResponse({"key": sample.key}, 201)

    return create


def _port_beside(base_url: str) -> int:
    wanted = (urlsplit(base_url).port or 0) + 1
    return wanted if ports.is_free(wanted, HOST) else 0
