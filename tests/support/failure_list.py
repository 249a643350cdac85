"""Repeats the failed tests and their errors at the very end of a run's output, where an excerpt shows them."""

import re

import pytest

HEADING = "failed tests in short"
MOST_LINES = 20
"""Lines of a test's error at most: its last ones."""
_ERROR = re.compile(r"E  |\S+\.py:\d+: ")
"""Lines of a traceback that are the error itself, or the place of a frame."""


def list_failures(reporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("failed", "error") for report in reporter.getreports(kind)]
    if not reports:
        return
    reporter.section(HEADING)
    for report in reports:
        reporter.line(f"FAILED {report.nodeid}")
        for line in error_lines(report):
            reporter.line(f"    {line}")


def error_lines(report: pytest.TestReport) -> list[str]:
    lines = report.longreprtext.splitlines()
    # groups of exceptions are shown in another form
    return ([line for line in lines if _ERROR.match(line)] or lines)[-MOST_LINES:]
