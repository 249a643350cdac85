"""Minimal stand-ins for the service's processes, for tests of the supervisor."""

import sys

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.service_process import ServiceProcess

_GATEWAY = """
import http.server, json, os, signal, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(dict(os.environ)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

def drain(*_):
    print("drained", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, drain)
http.server.HTTPServer((os.environ["TALLY_HOST"], int(os.environ["TALLY_PORT"])), Handler).serve_forever()
"""
_PROJECTOR = """
import signal, sys

def drain(*_):
    print("drained", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, drain)
print("started", flush=True)
while True:
    signal.pause()
"""

GATEWAY = ServiceProcess("gateway", (sys.executable, "-c", _GATEWAY))
"""Answers every GET with 200 and its own environment as JSON."""
_IS_READY = 'os.path.exists(os.environ["TALLY_DATA_DIR"] + "/ready")'
LATE = ServiceProcess(
    "gateway",
    (sys.executable, "-c", _GATEWAY.replace("send_response(200)", f"send_response(200 if {_IS_READY} else 503)")),
)
"""Answers 503 until there is a file `ready` in the data directory."""
PROJECTOR = ServiceProcess("projector", (sys.executable, "-c", _PROJECTOR))
BROKEN = ServiceProcess("projector", (sys.executable, "-c", "raise SystemExit('cannot go on')"))
STUBBORN = ServiceProcess(
    "projector",
    (
        sys.executable,
        "-c",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()",
    ),
    drain_s=0.3,
)


class RecordingPreparation:
    """Records its calls."""

    def __init__(self) -> None:
        self.addresses: list[DeploymentAddresses] = []

    async def prepare(self, addresses: DeploymentAddresses) -> None:
        self.addresses.append(addresses)

    async def development_credentials(self, addresses: DeploymentAddresses) -> dict[str, str]:
        self.addresses.append(addresses)
        names = ("account", "api_key", "service_brand", "service_key", "test_service_brand", "test_service_key")
        return {name: f"the {name}" for name in names}
