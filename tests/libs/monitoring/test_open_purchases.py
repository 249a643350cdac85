"""A purchase that stays unprocessed is a problem, with its reason if it cannot be decrypted."""

from dataclasses import replace

import pytest

from libs.monitoring.health_problems import problems_of
from libs.monitoring.status import OpenPurchase, Status
from libs.views.generations.generations import ProjectionName
from tests.libs.monitoring.partition_rows import a_partition

ROW = a_partition(ProjectionName.PURCHASES)


@pytest.mark.parametrize(
    ("oldest", "said"),
    [
        (None, []),
        (OpenPurchase(7, 59, ""), []),
        (OpenPurchase(7, 61, ""), ["a purchase at offset 7 is neither cast nor refused for 61 s"]),
        (
            OpenPurchase(7, 1, "no event"),
            ["a purchase at offset 7 is neither cast nor refused for 1 s, it cannot be read: no event"],
        ),
    ],
)
def test_the_oldest_open_purchase_is_named(oldest: OpenPurchase | None, said: list[str]) -> None:
    status = Status(0, [replace(ROW, oldest_open=oldest)], (), ())
    assert [problem.detail for problem in problems_of(status)] == said
