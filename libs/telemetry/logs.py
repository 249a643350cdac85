"""Process logs: one line per event on standard error, as JSON, or as text on a terminal."""

import logging
import sys
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from opentelemetry import trace
from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from libs.tally.time_conversion import timestamp
from libs.telemetry.environment_settings import TelemetrySettings
from libs.telemetry.log_rate_limit import RateLimit
from libs.telemetry.redaction import redacted

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""Id of the current request, added to every log line."""
QUIET: Final = ("aiokafka", "httpx", "httpcore")
"""Verbose libraries: they log failures that we log too, or URLs that callers requested."""

_NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "exception"}

logger = logging.getLogger(__name__)


class _Line(logging.Formatter):
    """Formats times in UTC (RFC 3339), and redacts secrets."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002
        return timestamp(int(record.created * 1_000_000)) or ""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class JsonLine(_Line, JsonFormatter):
    """Formats a line as JSON; the logger's `extra` become members: `partition`, `offset`, ..."""

    def __init__(self) -> None:
        fields = ("asctime", "levelname", "name", "message")
        super().__init__(fields, rename_fields=_NAMES, reserved_attrs=[*RESERVED_ATTRS, "color_message"])


class TextLine(_Line):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        request, left_out = getattr(record, "request_id", None), getattr(record, "left_out", None)
        line = line if request is None else f"{line} (request {request})"
        return line if left_out is None else f"{line} ({left_out:,} more like it were left out)"


def configure_logs(settings: TelemetrySettings) -> None:
    """Send all logs of the process and its libraries to standard error in one format."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(TextLine() if text else JsonLine())
    handler.addFilter(RateLimit())
    handler.addFilter(add_context)
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _last_words


def add_context(record: logging.LogRecord) -> bool:
    """Add the ids of the current request and trace to a line, if any."""
    if (request := REQUEST_ID.get()) is not None:
        record.request_id = request
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        record.trace_id = trace.format_trace_id(span.trace_id)
        record.span_id = trace.format_span_id(span.span_id)
    return True


def _last_words(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Log the uncaught exception that ends the process."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        logger.critical("the process ends: %s", kind.__name__, exc_info=(kind, error, traceback))
