"""Contests made and votes cast over HTTP, as tests want to say it."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx


def hours_from_now(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def running(**changes: Any) -> dict[str, Any]:
    """The body of a contest that runs, with `contest_config` members changed."""
    config = {"start": hours_from_now(-1), "end": hours_from_now(1), "ip_restriction_per_participant": -1}
    return {"title": "Final", "publish": hours_from_now(-2), "contest_config": config | changes}


@dataclass(frozen=True)
class Contest:
    """A contest with its participants, and a way to vote in it."""

    client: httpx.AsyncClient
    key: str
    participants: list[str]

    @property
    def path(self) -> str:
        return f"/contests/{self.key}"

    async def vote(
        self, participant: int | str = 0, voter: str = "v1", headers: dict[str, str] | None = None, **members: Any
    ) -> httpx.Response:
        """One vote; `participant` by number or key. `anonymous_id` among the members replaces the voter."""
        key = self.participants[participant] if isinstance(participant, int) else participant
        body: dict[str, Any] = {"participant_key": key}
        if "anonymous_id" not in members:
            body["voter_id"] = voter
        return await self.client.post(f"{self.path}/votes", json=body | members, headers=headers)

    async def counts(self, position: str | None = None) -> dict[str, Any]:
        """The vote count record, with everything up to the `Tally-Position` in it."""
        query = {"sources": "true"} | ({"min_position": position} if position else {})
        answer = await self.client.get(f"{self.path}/vote_updates/", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def change(self, **config: Any) -> httpx.Response:
        """PATCH members of `contest_config`."""
        return await self.client.patch(self.path, json={"contest_config": config})


@dataclass(frozen=True)
class Api:
    client: httpx.AsyncClient

    async def contest(self, participants: int = 2, body: dict[str, Any] | None = None, **config: Any) -> Contest:
        """A running contest, unless `body` says otherwise."""
        answer = await self.client.post("/contests", json=body or running(**config))
        assert answer.status_code == 201, answer.text
        contest = Contest(self.client, answer.json()["key"], [])
        for number in range(participants):
            contest.participants.append(await self.participant(contest, title=f"Participant {number}"))
        return contest

    async def participant(self, contest: Contest, **members: Any) -> str:
        answer = await self.client.post(f"{contest.path}/participants", json=members)
        assert answer.status_code == 201, answer.text
        key: str = answer.json()["key"]
        return key


def new_id() -> str:
    return uuid.uuid4().hex


def code(answer: httpx.Response) -> tuple[int, str | None]:
    """Status and problem code."""
    return answer.status_code, answer.json().get("code")
