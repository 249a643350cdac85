"""Progress without a terminal: a line every few seconds, and nothing for a quiet report."""

from io import StringIO

import pytest
from rich.console import Console

from libs.local_stack import startup_report
from libs.local_stack.startup_report import Report


def printed(monkeypatch: pytest.MonkeyPatch, line_s: float, *, quiet: bool = False) -> str:
    monkeypatch.setattr(startup_report, "LINE_S", line_s)
    file = StringIO()
    report = Report(Console(file=file, highlight=False, width=120), quiet=quiet)
    report.begin("Folding votes", 2_000)
    report.advance(1_500)
    report.note("redis://default:secret@127.0.0.1:6379/0 answers")
    report.end()
    return file.getvalue()


def test_a_line_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    line, _ = printed(monkeypatch, line_s=-1).splitlines()
    assert line.startswith("Folding votes: 1,500 of 2,000, ")
    assert line.endswith(" per second")


def test_a_short_operation_prints_notes_without_secrets_and_a_quiet_report_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert printed(monkeypatch, line_s=60) == "redis://default:***@127.0.0.1:6379/0 answers\n"
    assert printed(monkeypatch, line_s=-1, quiet=True) == ""
