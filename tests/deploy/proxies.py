"""nginx and HAProxy before a server of a test, with the configurations of `deploy/proxies` and with bad ones."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from libs.local_stack.ports import accepts, free_ports
from tests.support.eventually import eventually
from tests.support.programs import HAPROXY, NGINX, Programs

CONFIGURATIONS: Final = Path(__file__).parents[2] / "deploy" / "proxies"
NGINX_MAIN: Final = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""
WEBSOCKETS_NGINX: Final = """
map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
upstream tally { server 127.0.0.1:8080; keepalive 1; }
server {
    listen 8000;
    location / {
        proxy_pass http://tally;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
    }
}
"""
"""As most pages about WebSockets advise: forwards `Upgrade`."""
WEBSOCKETS_HAPROXY: Final = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend callers
    bind :8000
    default_backend tally
backend tally
    http-reuse always
    server gateway 127.0.0.1:8080
"""
"""HAProxy's default, which forwards `Upgrade`."""


@asynccontextmanager
async def nginx(programs: Programs, folder: Path, to: int, server: str | None = None) -> AsyncIterator[int]:
    """Run nginx before the port `to`; the context's value is its own port."""
    text = (CONFIGURATIONS / "nginx.conf").read_text() if server is None else server
    (port,) = free_ports(1)
    main = folder / "nginx.conf"
    main.write_text(NGINX_MAIN.format(folder=folder, server=_placed(text, port, to)))
    async with _running([programs.path(NGINX), "-p", str(folder), "-c", str(main)], port):
        yield port


@asynccontextmanager
async def haproxy(programs: Programs, folder: Path, to: int, config: str | None = None) -> AsyncIterator[int]:
    """Run HAProxy before the port `to`; the context's value is its own port."""
    text = (CONFIGURATIONS / "haproxy.cfg").read_text() if config is None else config
    (port,) = free_ports(1)
    file = folder / "haproxy.cfg"
    file.write_text(_placed(text, port, to))
    async with _running([programs.path(HAPROXY), "-db", "-f", str(file)], port):
        yield port


def _placed(text: str, port: int, to: int) -> str:
    """Replace the ports of a configuration, each of which it has exactly once."""
    for given, own in (("listen 8000", f"listen 127.0.0.1:{port}"), ("bind :8000", f"bind 127.0.0.1:{port}")):
        assert text.count(given) <= 1
        text = text.replace(given, own)
    assert text.count("127.0.0.1:8080") == 1
    return text.replace("127.0.0.1:8080", f"127.0.0.1:{to}")


@asynccontextmanager
async def _running(command: Sequence[str], port: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
    try:
        await eventually(lambda: accepts(port))
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
