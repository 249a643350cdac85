"""Every part is killed or frozen while voters vote and take votes back, and buyers buy and are refunded: nothing
that was answered is lost, doubled or over a limit."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.deployment_discovery import find_addresses
from tests.faults.buyers import Buyers
from tests.faults.voters import Voters, a_limited_contest, settled, voting
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.eventually import eventually
from tests.support.run_profile import by_profile
from tests.support.servers.deployments import FEW_PARTITIONS, compare, reconcile_logs
from tests.support.servers.frozen_process import stopped

pytestmark = pytest.mark.slow

VOTERS, BUYERS = 8, 4
VOTES, PURCHASES = 50, 6
"""Taken before and after each fault, at least."""
ROUNDS = by_profile(short=1, long=2)
"""Faults in one test."""
LIMIT = 20
SEND_DEADLINE_S = 2.0
FROZEN_S = 4.0
"""Longer than a send's deadline, and than Kafka's session: what is under way becomes unknown."""


@pytest.fixture(scope="module")
async def own_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Servers of its own, which the other tests do not miss while they are down."""
    settings = StackSettings(
        data_dir=Path(tmp_path_factory.mktemp("faults")),
        kafka_bootstrap_servers=None,
        valkey_url=None,
        partitions=FEW_PARTITIONS,
        stack_start_timeout_s=180,
    )
    with pytest.MonkeyPatch.context() as environment:
        for name in ("TALLY_PRODUCE_DEADLINE_MS", "TALLY_KAFKA_REQUEST_TIMEOUT_MS"):
            environment.setenv(name, f"{1000 * SEND_DEADLINE_S:.0f}")
        async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
            yield supervisor


Fault = Callable[[Supervisor, str], Awaitable[None]]


async def kill(stack: Supervisor, name: str) -> None:
    await stack.kill(name)


async def freeze(stack: Supervisor, name: str) -> None:
    with stopped(stack.pids[name]):
        await asyncio.sleep(FROZEN_S)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (kill, "projector"),
        (kill, "gateway"),
        (kill, "valkey"),
        (kill, "kafka"),
        (freeze, "kafka"),
        (freeze, "valkey"),
        *by_profile(short=[], long=[(freeze, "projector")]),
    ],
)
async def test_votes_and_purchases_outlive(own_stack: Supervisor, fault: Fault, name: str) -> None:
    async with development_client(own_stack.stack, timeout=20) as client:
        contest = await a_limited_contest(client, LIMIT)
        voters, buyers = Voters(contest), Buyers(await Api(client).contest())
        async with voting(voters, VOTERS) as people:
            for _ in range(BUYERS):
                people.create_task(buyers.buy())
            for _ in range(ROUNDS):
                await more(voters, buyers)
                await fault(own_stack, name)
            await more(voters, buyers)
            buyers.stop.set()
        await settled(client, contest, voters)
        await buyers.settled()
        report = await compare(find_addresses(own_stack.data_dir), contest.key)
        assert report.equal, report.differences
        voters.are_within(2 * LIMIT)

        async def fits() -> bool:
            found = await reconcile_logs(find_addresses(own_stack.data_dir))
            assert found.fits, found
            return True

        await eventually(fits, every_s=1)


async def more(voters: Voters, buyers: Buyers) -> None:
    before = voters.total
    await eventually(lambda: voters.total > before + VOTES)
    await buyers.buy_more(PURCHASES)
