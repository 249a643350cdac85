"""Creates contests and casts votes over HTTP."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.support.clients.http_clients import ok
from tests.support.clients.retried import final_answer
from tests.support.eventually import DEADLINE_S, eventually


def hours_from_now(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def running(**changes: Any) -> dict[str, Any]:
    """Return the body of a running contest, with `contest_config` members changed."""
    config = {"start": hours_from_now(-1), "end": hours_from_now(1), "ip_restriction_per_participant": -1}
    return {"title": "Final", "publish": hours_from_now(-2), "contest_config": config | changes}


MOST_POSITIONS = 200
"""Positions of one request: its line and headers are bounded."""


@dataclass(frozen=True)
class Contest:
    """A contest with its participants; sends votes to it."""

    client: httpx.AsyncClient
    key: str
    participants: list[str]

    @property
    def path(self) -> str:
        return f"/contests/{self.key}"

    async def vote(
        self, participant: int | str = 0, voter: str = "v1", headers: dict[str, str] | None = None, **members: Any
    ) -> httpx.Response:
        """Cast one vote; `participant` is a number or key. `anonymous_id` among the members replaces the voter."""
        key = self.participants[participant] if isinstance(participant, int) else participant
        body: dict[str, Any] = {"participant_key": key}
        if "anonymous_id" not in members:
            body["voter_id"] = voter
        return await self.client.post(f"{self.path}/votes", json=body | members, headers=headers)

    async def rate(self, participant: int, value: float, voter: str = "v1", **members: Any) -> httpx.Response:
        """Cast a rating; `sub_ratings` and `vote_id` are among the members."""
        rating = {"value": value, "sub_ratings": members.pop("sub_ratings", {})}
        return await self.vote(participant, voter, rating=rating, **members)

    async def ballot(self, *places: int, voter: str = "v1", **members: Any) -> httpx.Response:
        """Cast a ballot that gives the first of `places` the position "1", and so on."""
        positions = {str(at): self.participants[number] for at, number in enumerate(places, 1)}
        body = {"voter_id": voter, "positions": positions}
        return await self.client.post(f"{self.path}/votes", json=body | members)

    async def remove(self, vote: httpx.Response | str, voter: str = "v1", **query: str) -> httpx.Response:
        """Remove a vote, given its answer or its id."""
        vote_id = vote if isinstance(vote, str) else vote.json()["vote_id"]
        return await self.client.delete(f"{self.path}/votes/{vote_id}", params=query or {"voter_id": voter})

    async def status(self, vote: httpx.Response | str, voter: str = "v1", **query: str) -> dict[str, Any]:
        vote_id = vote if isinstance(vote, str) else vote.json()["vote_id"]
        path, params = f"{self.path}/votes/{vote_id}", query or {"voter_id": voter}
        return ok(await final_answer(lambda: self.client.get(path, params=params)))

    async def allowance(self, voter: str = "v1", source: str = "c-free") -> dict[str, Any]:
        """Return the voter's allowance of one source, with `next_free_vote_at` added."""
        answer = await self.client.get(f"{self.path}/allowance", params={"voter_id": voter})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        its: dict[str, Any] = next(each for each in body["sources"] if each["source"] == source)
        return its | {"next_free_vote_at": body["next_free_vote_at"]}

    async def counts(self, *positions: str) -> dict[str, Any]:
        """Return the vote count record at or after each `Tally-Position`."""
        query: dict[str, Any] = {"sources": "true"} | ({"min_position": positions} if positions else {})
        return ok(await self.client.get(f"{self.path}/vote_updates/", params=query))

    async def counts_with(self, *answers: httpx.Response) -> dict[str, Any]:
        """Return the vote count record that includes all these votes; voters have different partitions."""
        positions = [answer.headers["tally-position"] for answer in answers]
        for first in range(0, len(positions) - MOST_POSITIONS, MOST_POSITIONS):
            await self.counts(*positions[first : first + MOST_POSITIONS])
        return await self.counts(*positions[-MOST_POSITIONS:])

    async def reaches(self, **figures: int) -> None:
        """Wait until the vote count record has these figures."""

        async def has_figures() -> bool:
            counts = await self.counts()
            assert {name: counts[name] for name in figures} == figures
            return True

        await eventually(has_figures)

    async def change(self, **config: Any) -> httpx.Response:
        """Change members of `contest_config`; sent again while a busy machine has not folded it in time."""
        return await final_answer(lambda: self.client.patch(self.path, json={"contest_config": config}))

    async def finality(self) -> str:
        """Return whether the counts are final, as their header says."""
        answer = await final_answer(lambda: self.client.get(f"{self.path}/vote_updates/"))
        return answer.headers["tally-final"]

    async def becomes_final(self) -> None:
        async def is_final() -> bool:
            return await self.finality() == "final"

        await eventually(is_final)

    async def end(self, *, final: bool = True) -> None:
        """End it now, and wait until its counts are final."""
        answer = await self.change(end=hours_from_now(-1 / 3600))
        assert answer.status_code == 200, answer.text
        if final:
            await self.becomes_final()


@dataclass(frozen=True)
class Api:
    client: httpx.AsyncClient
    deadline_s: float = DEADLINE_S
    """Seconds in which a record must be created."""

    async def contest(self, participants: int = 2, body: dict[str, Any] | None = None, **config: Any) -> Contest:
        """Create a contest, a running one unless `body` differs."""
        contest = Contest(self.client, await self._create("/contests", body or running(**config)), [])
        for number in range(participants):
            contest.participants.append(await self.participant(contest, title=f"Participant {number}"))
        return contest

    async def participant(self, contest: Contest, **members: Any) -> str:
        return await self._create(f"{contest.path}/participants", members)

    async def _create(self, path: str, body: dict[str, Any]) -> str:
        """Create a record and return its key; sent again while a busy machine has not folded it in time."""
        headers = {"Idempotency-Key": new_id()}
        answer = await final_answer(
            lambda: self.client.post(path, json=body, headers=headers), deadline_s=self.deadline_s
        )
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["key"]


def moment(text: str) -> datetime:
    """Parse a timestamp of an answer."""
    return datetime.fromisoformat(text)


def new_id() -> str:
    return uuid.uuid4().hex


def code(answer: httpx.Response) -> tuple[int, str | None]:
    """Return status and problem code."""
    return answer.status_code, answer.json().get("code")
