"""Registers external sources and sends their reports over HTTP."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Api, Contest, new_id


@dataclass(frozen=True)
class Source:
    """One source of a contest."""

    contest: Contest
    name: str

    @property
    def path(self) -> str:
        return f"{self.contest.path}/vote_sources/{self.name}"

    async def put(self, **members: Any) -> httpx.Response:
        return await self.contest.client.put(self.path, json=members)

    async def map(self, *ids: str, **members: Any) -> None:
        """Register it with the first id for the first participant, and so on; "" maps to none."""
        mapping = {mapped: key for mapped, key in zip(ids, self.contest.participants, strict=False) if mapped}
        answer = await final_answer(lambda: self.put(mapping=mapping, **members))
        assert answer.status_code in (200, 201), answer.text

    async def send(self, report_id: str = "", **body: Any) -> httpx.Response:
        return await self.contest.client.post(
            f"{self.path}/counts", json={"report_id": report_id or new_id(), **body}
        )

    async def report(
        self, report_id: str = "", /, *, allow_decrease: bool = False, **figures: int
    ) -> httpx.Response:
        """Report votes by id; the answer must be an acceptance."""
        counts = [{"mapped_id": mapped, "count": count} for mapped, count in figures.items()]
        answer = await self.send(report_id, counts=counts, allow_decrease=allow_decrease)
        assert answer.status_code == 202, answer.text
        return answer

    async def counted(self, reported: httpx.Response | None = None) -> list[int]:
        """Return votes of this source by participant, including those of the report `reported`."""
        record = await self.contest.counts_with(*filter(None, [reported]))
        return [
            sum(row["count"] for row in record["participants"][key]["vote_sources"] if row["source"] == self.name)
            for key in self.contest.participants
        ]


async def a_source(api: Api, *ids: str, participants: int = 2, name: str = "sms", **members: Any) -> Source:
    """Return a source of a running contest, whose ids are mapped to its participants in their order."""
    source = Source(await api.contest(participants), name)
    await source.map(*ids, **members)
    return source
