"""A projector gathers the records of many partitions for longer, and fetches without records less often."""

import pytest

from libs.projection.settings import CATALOGUE, VOTES, fetch_wait_ms


def gathered_ms(per_s: int, partitions: int) -> float:
    """The wait that such a load leads to: its records are spread evenly."""
    wait = 0.0
    for _ in range(20):
        records = int(per_s * max(wait, 10) / 1000)
        wait = VOTES.next_gather_ms(wait, records, min(records, partitions))
    return wait


@pytest.mark.parametrize(
    ("per_s", "partitions", "wait_ms"),
    [
        pytest.param(100, 256, 0.0, id="quiet"),
        pytest.param(3_000, 16, 50.0, id="few partitions"),
        pytest.param(20_000, 64, 50.0, id="many records of each"),
        pytest.param(3_000, 256, 200.0, id="few records of each"),
        pytest.param(5_000, 64, 100.0, id="until each has eight"),
    ],
)
def test_records_of_many_partitions_are_gathered_until_each_has_several(
    per_s: int, partitions: int, wait_ms: float
) -> None:
    assert gathered_ms(per_s, partitions) == pytest.approx(wait_ms, rel=0.05)


def test_full_batches_and_other_topics_do_not_wait() -> None:
    assert VOTES.next_gather_ms(200.0, VOTES.max_records, 256) == 0.0
    assert CATALOGUE.next_gather_ms(0.0, 100, 4) == 0.0


def test_fetches_name_as_many_partitions_a_second_for_any_number_up_to_256() -> None:
    assert [fetch_wait_ms(partitions, 5_000) for partitions in (1, 16, 64)] == [500, 500, 500]
    assert {partitions / fetch_wait_ms(partitions, 5_000) for partitions in (64, 128, 256)} == {64 / 500}


def test_no_fetch_waits_for_longer_than_two_seconds_or_half_of_a_requests_timeout() -> None:
    assert fetch_wait_ms(4_096, 5_000) == 2_000
    assert fetch_wait_ms(4_096, 1_000) == 500
