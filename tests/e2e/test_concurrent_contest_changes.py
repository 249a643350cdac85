"""A contest changed while two workers accept votes: after the response both apply the new rules."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.topics import votes_topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.local_stack.supervisor import Supervisor
from libs.tally.events import VoteCast
from services.cli.deployment_discovery import find_addresses
from tests.support.another_gateway import another_gateway
from tests.support.eventually import eventually
from tests.support.voting import Api, Contest, code, hours_from_now, new_id

VOTERS = 4
"""Of each worker, without a pause."""
ANSWERS = 15
"""Of each worker, under each of the configurations."""
NOT_RUNNING = (409, "contest_not_running", None)


@pytest.fixture
async def another_worker(stack: Supervisor, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with another_gateway(stack, tmp_path / "log") as client:

        async def is_ready() -> bool:
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(is_ready)
        yield client


@dataclass(frozen=True)
class Answered:
    """A vote of three by a voter of its own, and when it was sent and answered (loop time)."""

    worker: int
    sent: float
    answered: float
    answer: httpx.Response

    @property
    def judged(self) -> tuple[int, str | None, int | None]:
        """Status and code, and how much the limit leaves after it, or what the limit is."""
        body = self.answer.json()
        if self.answer.status_code == 201:
            return 201, None, body["remaining"]["participant"]
        return *code(self.answer), body.get("limit")


@dataclass
class Voters:
    """Votes for the first participant, at every worker, until stopped."""

    workers: list[Contest]
    stop: bool = False
    votes: list[Answered] = field(default_factory=list)

    async def run(self) -> None:
        await asyncio.gather(*(self._vote(number) for number in range(len(self.workers)) for _ in range(VOTERS)))

    async def _vote(self, worker: int) -> None:
        now = asyncio.get_running_loop().time
        while not self.stop:
            sent = now()
            answer = await self.workers[worker].vote(0, voter=new_id(), count=3)
            self.votes.append(Answered(worker, sent, now(), answer))

    def since(self, moment: float) -> list[Answered]:
        """Sent and answered since then."""
        return [vote for vote in self.votes if vote.sent > moment]

    async def goes_on(self, moment: float) -> list[Answered]:
        """Return the requests sent since then, once each worker has answered enough of them."""

        def enough() -> bool:
            answered_by = [vote.worker for vote in self.since(moment)]
            return all(answered_by.count(worker) >= ANSWERS for worker in range(len(self.workers)))

        await eventually(enough)
        return self.since(moment)


@dataclass(frozen=True)
class Change:
    """A change that was answered at `moment` (us since 1970), with the configuration version that it made."""

    moment: int
    version: int


def limit(votes: int) -> dict[str, object]:
    return {"contest_config": {"free": {"max_participant": votes}}}


async def test_from_the_answer_to_a_change_on_every_worker_judges_by_it(
    api: Api, stack: Supervisor, another_worker: httpx.AsyncClient
) -> None:
    contest = await api.contest(free={"max_participant": 5})
    key = contest.participants[0]
    voters = Voters([contest, Contest(another_worker, contest.key, contest.participants)])
    changing = [api.client, another_worker]
    start, record, participant = hours_from_now(-1), contest.path, f"/participants/{key}"
    steps = [
        (record, limit(7), (201, None, 4)),
        (record, limit(2), (409, "participant_limit_reached", 2)),
        (record, limit(5), (201, None, 2)),
        (record, {"contest_config": {"start": hours_from_now(0.5)}}, NOT_RUNNING),
        (record, {"contest_config": {"start": start}}, (201, None, 2)),
        (participant, {"status": "rejected"}, (409, "participant_not_votable", None)),
        (participant, {"status": "approved"}, (201, None, 2)),
        (record, {"contest_config": {"free": {"is_mobile_only": True}}}, (403, "mobile_only", None)),
        (record, {"contest_config": {"free": {"is_mobile_only": False, "max_participant": 3}}}, (201, None, 0)),
        (record, {"contest_config": {"end": start}}, NOT_RUNNING),
    ]
    changes: list[Change] = []
    async with Deployment(find_addresses(stack.data_dir)) as deployment, asyncio.TaskGroup() as group:
        views = deployment.catalogue.views
        group.create_task(voters.run())
        await voters.goes_on(0)
        for number, (path, patch, judged) in enumerate(steps):
            answer = await changing[number % 2].patch(path, json=patch)
            answered = asyncio.get_running_loop().time()
            assert answer.status_code == 200, answer.text
            moment, config = time.time_ns() // 1000, await views.contest_config("dev", contest.key)
            assert config.version is not None
            changes.append(Change(moment, config.version))
            assert {vote.judged for vote in await voters.goes_on(answered)} == {judged}, patch
        voters.stop = True
    accepted = sum(vote.answer.status_code == 201 for vote in voters.votes)
    events = await votes_of(stack, contest.key)
    assert len(events) == accepted
    assert_judged_by_what_held(events, changes)

    async def all_count() -> bool:
        return bool((await contest.counts())["count"] == 3 * accepted)

    await eventually(all_count)


async def votes_of(stack: Supervisor, contest: str) -> list[VoteCast]:
    """The contest's votes in the log."""
    described = stack.stack
    topic = votes_topic(described["namespace"], described["partitions"])
    found = []
    async with LogReader(KafkaSettings(kafka_bootstrap_servers=described["kafka"])) as reader:
        extents = await reader.extents(topic.name, range(topic.partitions))
        async for _, records in reader.records(topic.name, extents):
            events = [vote_codec.decode(record.value) for record in records]
            found += [event for event in events if isinstance(event, VoteCast) and event.contest == contest]
    return found


def assert_judged_by_what_held(events: list[VoteCast], changes: list[Change]) -> None:
    """Each by a configuration that was in force when it was accepted, or came while it was; and by its limits."""
    limits: dict[int, set[int]] = {}
    for event in events:
        known = [change.version for change in changes if change.moment < event.accepted_at]
        assert event.config >= max(known, default=0)
        limits.setdefault(event.config, set()).add(event.max_participant)
    assert all(len(found) == 1 for found in limits.values())
    by_version = [next(iter(limits[version])) for version in sorted(limits)]
    assert [a for a, b in zip(by_version, [*by_version[1:], None], strict=True) if a != b] == [5, 7, 5, 3]
