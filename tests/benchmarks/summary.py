"""The figures in the project's README, between two marks."""

from tests.benchmarks.figures import Figures
from tests.benchmarks.results import Results
from tests.benchmarks.rows import number

BEGIN, END = "<!-- figures written by tests/benchmarks -->", "<!-- end of figures -->"


def inserted(document: str, results: Results) -> str:
    """Return the document with the results' figures between the marks. Raises `NotMeasured`."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for figures: {BEGIN} {END}")
    return f"{before}{BEGIN}\n{_paragraph(Figures(results))}\n{END}{after}"


def _paragraph(figures: Figures) -> str:
    section = figures.section("votes")
    replay = figures.section("replay").measurements[0]
    loaded = "256 clients, 1 worker"
    return f"""\
Measured on {section.machine.cores} cores ({section.machine.processor}) that also run Kafka, Valkey and the load:

| one process | figure |
|---|---|
| gateway, one vote a request, 256 clients | {number(figures.value("votes", loaded))} votes/s, p99 \
{number(figures.value("votes", f"{loaded}: p99"))} ms |
| gateway, batches of 1,000 votes | {number(figures.value("batch", "batches of 1,000 votes, 8 clients"))} votes/s |
| gateway, reads of `vote_updates`, 20 participants, while votes come in | \
{number(figures.value("counts", "20 participants, changing"))} reads/s |
| {replay.name} | {number(replay.ours.value)} votes/s |
| memory of a voter with three votes | {number(figures.value("memory", "a voter with 3 votes"))} bytes |"""
