"""Contents of a process's own log, and what it never contains."""

import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import TypeAdapter, ValidationError

from libs.telemetry.environment_settings import TelemetrySettings
from libs.telemetry.logs import REQUEST_ID, JsonLine, TextLine, add_context
from libs.telemetry.redaction import redacted
from tests.libs.telemetry.logging_process import logged

KEY = "tk_0123456789abcdef_" + "x" * 43


class Lines(logging.Handler):
    """Keeps what a formatter makes of each record."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.addFilter(add_context)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, Lines, Lines]]:
    logger, lines, text = logging.getLogger("tests.telemetry"), Lines(JsonLine()), Lines(TextLine())
    logger.handlers, logger.propagate = [lines, text], False
    yield logger, lines, text
    logger.handlers, logger.propagate = [], True


def test_a_line_names_the_span_in_which_it_was_written(log: tuple[logging.Logger, Lines, Lines]) -> None:
    logger, lines, _ = log
    with TracerProvider().get_tracer("tests").start_as_current_span("request") as span:
        logger.warning("late")
    context = span.get_span_context()
    said = json.loads(lines.lines[0])
    assert (said["trace_id"], said["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


def test_a_line_is_json_with_what_belongs_to_the_event_as_members(
    log: tuple[logging.Logger, Lines, Lines],
) -> None:
    logger, lines, text = log
    REQUEST_ID.set("order-7")
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        logger.exception("fold of %s failed", "votes/3", extra={"partition": 3, "offset": 42})
    finally:
        REQUEST_ID.set(None)
    said = json.loads(lines.lines[0])
    assert said.pop("time").endswith("Z")
    exception = said.pop("exception")
    assert exception.startswith("Traceback")
    assert exception.endswith("ZeroDivisionError: division by zero")
    assert said == {
        "level": "ERROR",
        "logger": "tests.telemetry",
        "message": "fold of votes/3 failed",
        "partition": 3,
        "offset": 42,
        "request_id": "order-7",
    }
    assert "ERROR tests.telemetry: fold of votes/3 failed (request order-7)" in text.lines[0]


SECRETS = [
    (f"key {KEY} is unknown", KEY[-43:]),
    ("Authorization: Bearer abc.def-123", "abc.def-123"),
    ("https://tally:hunter2@host/x is away", "hunter2"),
    ("redis://:hun@ter2@host:6379/0 refused", "ter2"),
    ("https://hunter2@host/ refused", "hunter2"),
    ("PUT http://h/files/1/content?signature=AbC-_9 failed", "AbC-_9"),
    ("GET /contests/c/allowance?voter_id=alice&x=1", "alice"),
]


@pytest.mark.parametrize(("message", "secret"), SECRETS)
def test_no_secret_stands_in_a_line_or_in_an_error_of_it(
    log: tuple[logging.Logger, Lines, Lines], message: str, secret: str
) -> None:
    logger, lines, text = log
    logger.warning("it said %s", message)
    try:
        raise RuntimeError(message)
    except RuntimeError:
        logger.exception("failed")
    for line in (*lines.lines, *text.lines):
        assert secret not in line
        assert "***" in line
    assert all(json.loads(line)["message"] for line in lines.lines)


def test_what_a_caller_sent_is_not_quoted_by_what_checked_it() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(list[int]).validate_python(["alice@example.org"])
    assert "alice" in str(refused.value)
    assert "alice" not in redacted(str(refused.value))


PROGRAM = """
logging.getLogger("aiokafka.client").info("much")
logging.getLogger("httpx").info("HTTP Request: GET http://h/picture")
logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "no"})
logging.getLogger("mine").debug("little")
warnings.warn("old")
raise KeyError("last")
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["uvicorn.error", "py.warnings", "libs.telemetry.logs"]),
        ({"TALLY_LOG_LEVEL": "DEBUG"}, ["uvicorn.error", "mine", "py.warnings", "libs.telemetry.logs"]),
        ({"TALLY_LOG_LEVEL": "error"}, ["libs.telemetry.logs"]),
    ],
)
def test_libraries_warnings_and_the_end_itself_go_the_same_way(
    settings: dict[str, str], expected: list[str]
) -> None:
    said, exit_code = logged(PROGRAM, **settings)
    assert exit_code == 1
    assert [line["logger"] for line in said] == expected
    assert "KeyError: 'last'" in said[-1]["exception"]


def test_a_wrong_address_of_a_collector_is_refused() -> None:
    with pytest.raises(ValidationError, match="traces_url"):
        TelemetrySettings(traces_url="collector:4318")
