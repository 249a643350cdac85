"""The kept results and what is rendered from them."""

import ast
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.benchmarks import documents, plot, readme, results
from tests.benchmarks.__main__ import reason_of
from tests.benchmarks.limits import LIMITS, NOT_PROFILED, limit_of
from tests.benchmarks.machine import Machine
from tests.benchmarks.measurement import OURS, Goal, Measurement, Missing, Party, Run, Size
from tests.benchmarks.paths import BY_NAME, PATHS, Path
from tests.benchmarks.results import HERE, Results, Section
from tests.benchmarks.rows import number

MACHINE = Machine("Processor", 2, 8, "Linux 6", "3.11", "abc", 0.1)
RATE = Measurement(
    "64 clients",
    "votes/s",
    "higher",
    Party(OURS, [Run(4103.4, {"gateway": 170.0, "Valkey": 80.0}, {"p50 ms": 14.2, "errors": 0})]),
    [Party("Redis | FastAPI", [Run(2000.0, {"peer": 380.0})], "no log")],
    Party("bare", [Run(20_000.0)]),
    [Goal(3.0, "Redis | FastAPI"), Goal(5_000.0)],
    [Missing("Absent", "it does not install")],
)


def section(path: str = "votes", *measurements: Measurement) -> Section:
    return Section(path, "POST of one vote", Size.FULL, "2030-01-01 10:00 UTC", 9.0, MACHINE, measurements)


def test_all_documents_are_rendered_from_the_kept_results() -> None:
    documents_ = documents.render(results.load())
    assert documents.CAPACITY in documents_
    assert [file for file, text in documents_.items() if file.read_text() != text] == []


def test_results_are_kept_whole() -> None:
    assert results.parse_measurements(results.dump_measurements([RATE])) == [RATE]


def test_fresh_sections_replace_those_of_the_same_path_and_keep_the_order() -> None:
    old, fresh = section("votes"), section("votes", RATE)
    other = section("fold")
    assert Results([other, old]).updated([fresh], ["votes", "fold"]) == Results([fresh, other])


def test_a_run_without_figures_keeps_the_older_ones_and_its_failure() -> None:
    failed = replace(section("votes"), failure="no server")
    [kept] = Results([section("votes", RATE)]).updated([failed], ["votes"]).sections
    assert (list(kept.measurements), kept.failure) == ([RATE], "no server")
    text = readme.render(Results([kept]))
    assert "The latest run failed: no server. The figures are of the run before." in text


def test_the_reason_of_a_failure_is_the_error_not_the_end_of_its_text() -> None:
    said = (
        "Traceback (most recent call last):\n  File x, line 3\nValueError: no quantile\n  Latency: 3\n\nRequests 5"
    )
    assert reason_of(said) == "ValueError: no quantile"
    assert reason_of("This benchmark loads with wrk\n") == "This benchmark loads with wrk"


def test_a_resumed_run_leaves_out_what_the_same_commit_has_measured_whole() -> None:
    whole, failed = section("votes", RATE), replace(section("fold", RATE), failure="no server")
    kept = Results([whole, failed])
    assert kept.is_measured("votes", Size.FULL, MACHINE.commit)
    assert not kept.is_measured("votes", Size.QUICK, MACHINE.commit)
    assert not kept.is_measured("votes", Size.FULL, "another")
    assert not kept.is_measured("fold", Size.FULL, MACHINE.commit)
    assert not kept.is_measured("batch", Size.FULL, MACHINE.commit)


def test_the_table_has_figures_ratios_verdicts_and_missing_peers() -> None:
    text = readme.render(Results([section("votes", RATE)]))
    assert "4,103 votes/s (p50 14.2 ms)" in text
    assert "250: gateway 170, Valkey 80.0" in text
    assert "| Redis \\| FastAPI | 2,000 votes/s | peer 380 | 2.05 × | 1.52 × | ≥ 3 ×: **not met** |" in text
    assert "≥ 5,000 votes/s: **not met**" in text
    assert "| Absent | not measured |  |  |  | it does not install |" in text
    assert "- Redis | FastAPI: no log." in text


def test_the_goals_come_first_in_one_table_and_the_missed_ones_have_a_reason() -> None:
    text = readme.render(Results([section("votes", RATE)]))
    goals = text[text.index("## Goals") : text.index("## POST of one vote")]
    assert "0 of 2 are met" in goals
    assert "| 64 clients | 4,103 votes/s (p50 14.2 ms) | Redis \\| FastAPI | 2.05 × | ≥ 3 × | **no** |" in goals
    assert "| 64 clients | 4,103 votes/s (p50 14.2 ms) |  |  | ≥ 5,000 votes/s | **no** |" in goals
    assert f"- 64 clients against Redis | FastAPI; 64 clients. {limit_of('votes', '64 clients', '')}" in text


def test_every_missed_goal_of_the_kept_results_has_a_reason() -> None:
    missed = [
        (section.path, measurement.name, verdict.goal.against)
        for section in results.load().sections
        for measurement in section.measurements
        for verdict in measurement.verdicts()
        if not verdict.is_met
    ]
    assert [each for each in missed if limit_of(*each) == NOT_PROFILED] == []


def test_every_reason_belongs_to_a_path() -> None:
    assert {limit.path for limit in LIMITS} <= set(BY_NAME)


def test_a_path_without_results_says_so() -> None:
    assert readme.render(Results()).count("Not measured yet.") == len(PATHS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_every_path_has_a_benchmark(path: Path) -> None:
    """Read, not imported: a benchmark imports half of the services."""
    module = ast.parse((HERE / f"{path.module}.py").read_text())
    assert "measure" in [each.name for each in module.body if isinstance(each, ast.AsyncFunctionDef)]


def test_the_plot_is_well_formed_and_colours_bars_by_their_goals() -> None:
    text = plot.page(Results([section("votes", RATE)]))
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    bars = [each.get("class") for each in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars == ["bad", "plain"]


def test_numbers_have_three_digits() -> None:
    assert [number(value) for value in (0.456, 4.56, 45.6, 456.0, 45_678.0)] == [
        "0.46",
        "4.56",
        "45.6",
        "456",
        "45,678",
    ]
