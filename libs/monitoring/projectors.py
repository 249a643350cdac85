"""Reads stopped and failed tasks of projectors from their `/metrics`."""

import asyncio
from collections.abc import Iterable
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from libs.web.tls import public_authorities

TIMEOUT_S: Final = 2.0
PART_UP: Final = "tally_projector_part_up"


async def failing_tasks(metrics_urls: Iterable[str]) -> list[str]:
    """Return the sorted names of failing tasks; unreachable processes report none."""
    found = await asyncio.gather(*map(_failing, metrics_urls))
    return sorted({name for names in found for name in names})


async def _failing(metrics_url: str) -> list[str]:
    import httpx  # noqa: PLC0415 (delays the start)

    try:
        async with httpx.AsyncClient(verify=public_authorities(), timeout=TIMEOUT_S, trust_env=False) as client:
            answer = (await client.get(metrics_url)).raise_for_status()
        families = list(text_string_to_metric_families(answer.text))
    except (httpx.HTTPError, ValueError):
        return []
    samples = [sample for family in families for sample in family.samples]
    return [one.labels["part"] for one in samples if one.name == PART_UP and one.value == 0]
