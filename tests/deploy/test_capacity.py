"""Formulas and pages computed from the results."""

from dataclasses import replace

import pytest

from tests.benchmarks import capacity_page, documents, results, summary
from tests.benchmarks.capacity import ASSUMED, QUANTITIES, Known, Size, measured, sized, walls_of
from tests.benchmarks.figures import Figures, NotMeasured
from tests.benchmarks.limits import NOT_PROFILED, limit_of

MEASURED = (
    Known("gateway_us", 100, "µs", ""),
    Known("valkey_us", 60, "µs", ""),
    Known("projector_us", 30, "µs", ""),
    Known("kafka_us", 20, "µs", ""),
    Known("log_bytes", 500, "bytes", ""),
    Known("file_bytes", 400, "bytes", ""),
    Known("to_valkey_bytes", 300, "bytes", ""),
    Known("from_valkey_bytes", 200, "bytes", ""),
    Known("request_bytes", 300, "bytes", ""),
    Known("answer_bytes", 700, "bytes", ""),
    Known("voter_bytes", 250, "bytes", ""),
    Known("gateway_mb", 100, "MB", ""),
    Known("projector_mb", 75, "MB", ""),
    Known("replay_per_s", 20_000, "votes/s", ""),
)


def test_processes_follow_from_cpu_time_and_the_part_of_a_core_in_use() -> None:
    names = sized(MEASURED, Size("", rate=100_000, votes=60e6))
    assert names["gateways"] == 17  # 10 cores of work, 0.6 of each in use
    assert names["shards"] == 10
    assert names["valkeys"] == 30
    assert names["projectors"] == 5
    assert names["brokers"] == 3
    assert names["partitions"] == 32
    assert names["cores"] == 17 + 5 + 30 + 3 * 8


def test_many_voters_need_shards_for_their_memory() -> None:
    names = sized(MEASURED, Size("", rate=1_000, votes=3e9))
    assert names["view_gib"] == pytest.approx(1e9 * 250 * 2 / 2**30)
    assert names["shards"] == 33  # of 24 GiB, 0.6 of each in use
    assert walls_of(names)[0][1].resource == "memory of Valkey (one shard)"


def test_the_resource_of_which_most_is_in_use_is_the_first_wall() -> None:
    walls = walls_of(sized(MEASURED, Size("", rate=11_000, votes=1e6)))
    assert [wall.resource.partition(" ")[0] for _, wall in walls[:2]] == ["gateway", "Valkey"]
    assert [part for part, _ in walls[:2]] == [pytest.approx(0.55), pytest.approx(0.33)]


def test_the_page_shows_every_formula_and_every_number_that_it_uses() -> None:
    page = capacity_page.render(results.load())
    for quantity in QUANTITIES:
        assert f"| `{quantity.name}` | `{quantity.formula}` |" in page
    for known in (*ASSUMED, *measured(Figures(results.load()))):
        assert f"| `{known.name}` | " in page


def test_the_documents_are_rendered_from_the_kept_results() -> None:
    rendered = documents.render(results.load())
    assert documents.CAPACITY in rendered
    assert [file for file, text in rendered.items() if file.read_text() != text] == []


def test_every_missed_goal_of_the_kept_results_has_a_reason() -> None:
    missed = [
        (section.path, measurement.name, verdict.goal.against)
        for section in results.load().sections
        for measurement in section.measurements
        for verdict in measurement.verdicts()
        if not verdict.is_met
    ]
    assert [each for each in missed if limit_of(*each) == NOT_PROFILED] == []


def test_pages_need_all_their_figures() -> None:
    kept = results.load()
    lacking = replace(kept, sections=[each for each in kept.sections if each.path != "bytes"])
    with pytest.raises(NotMeasured, match="bytes"):
        capacity_page.render(lacking)


def test_figures_stand_between_their_marks_and_nothing_else_changes() -> None:
    text = f"before\n{summary.BEGIN}\nFORMER\n{summary.END}\nafter"
    inserted = summary.inserted(text, results.load())
    assert inserted.startswith(f"before\n{summary.BEGIN}\nOn ")
    assert inserted.endswith(f"\n{summary.END}\nafter")
    assert "FORMER" not in inserted
    assert summary.inserted(inserted, results.load()) == inserted
