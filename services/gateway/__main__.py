"""`python -m services.gateway`: the whole HTTP API in one process."""

import gc

if __name__ == "__main__":
    gc.disable()  # until it serves: collections took a seventh of the CPU time of a start

from libs.telemetry.environment_settings import read_settings
from libs.web.server.http_service import run_process
from services.gateway.app import open_app
from services.gateway.settings import Settings

if __name__ == "__main__":
    settings = read_settings(Settings)
    run_process("gateway", settings, lambda tracing: open_app(settings, tracing))
