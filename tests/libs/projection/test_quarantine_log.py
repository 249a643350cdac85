"""A record that cannot be folded is named in the log of the projector."""

import pytest

from tests.support.builders.contests import a_cast
from tests.support.builders.folded_log import folded_log


async def test_a_quarantined_record_is_logged_with_its_place_and_reason(
    kafka: str, valkey_address: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with folded_log(kafka, valkey_address, namespace) as log:
        await log.append([a_cast(), b"poison"])
        await log.fold()
        (line,) = [one.getMessage() for one in caplog.records if one.name.startswith("libs.projection.")]
        assert line.startswith(f"quarantined topic={log.topic.name} partition=0 offset=2 reason=")
        assert "JSON" in line
