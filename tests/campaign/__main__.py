"""`python -m tests.campaign`: runs a campaign of faults against a stack of its own, and prints its table."""

import argparse
import asyncio
import logging
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from itertools import islice
from pathlib import Path

from tests.campaign.alarms import Alarms
from tests.campaign.campaign import COMPARISONS, Campaign
from tests.campaign.clients import Crowd, open_polls
from tests.campaign.commands import Commands
from tests.campaign.faults import faults_of, left_out
from tests.campaign.finals import open_finals
from tests.campaign.mutated import run_mutated
from tests.campaign.operators import Operator
from tests.campaign.oracle import Oracle
from tests.campaign.plan import plan
from tests.campaign.readers import Readers
from tests.campaign.report import notes, table
from tests.campaign.stage import TOPOLOGIES, open_stage
from tests.campaign.trade import open_trade
from tests.simulation.faults import Streams
from tests.support.clients.http_clients import http_client

TIMEOUT_S = 20.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="time in which faults begin")
    parser.add_argument("--topology", choices=TOPOLOGIES, default="single")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--faults", default="", help="comma-separated; default: all of the topology")
    parser.add_argument("--rate", type=float, default=40.0, help="votes a second")
    parser.add_argument("--show", type=int, metavar="N", help="only print the first N episodes of the seed")
    parser.add_argument("--mutation", default="", help="one of the simulation's, to see it found")
    return parser.parse_args()


async def run(options: argparse.Namespace) -> int:
    faults, streams, oracle = faults_of(options.topology), Streams(options.seed), Oracle()
    names = options.faults.split(",") if options.faults else list(faults)
    if unknown := set(names) - set(faults):
        sys.exit(f"unknown faults: {unknown}; of this topology are {', '.join(faults)}")
    episodes = plan(streams, {name: faults[name].hits for name in names})
    if options.show:
        print(*islice(episodes, options.show), sep="\n")
        return 0
    async with AsyncExitStack() as opened:
        directory = opened.enter_context(tempfile.TemporaryDirectory(prefix="campaign-"))
        data_dir = Path(directory) / "stack"
        stage = await opened.enter_async_context(open_stage(options.topology, data_dir, streams["members"]))
        description = stage.stack.stack
        headers = {"Authorization": f"Bearer {description['api_key']}"}
        client = await opened.enter_async_context(
            http_client(base_url=description["base_url"], headers=headers, timeout=TIMEOUT_S)
        )
        polls = await open_polls(client)
        oracle.polls += polls.values()
        stage.crowd = crowd = Crowd(client, oracle, polls, streams, options.rate)
        operator = Operator(crowd, description["operations_url"], streams["operator"])
        trade = await open_trade(crowd, streams["trade"])
        commands = Commands(crowd, data_dir, streams["commands"])
        finals = await opened.enter_async_context(open_finals(crowd, commands, description, streams["finals"]))
        people = Campaign(
            stage, crowd, operator, trade, commands, finals, Readers(crowd), faults, Alarms(data_dir)
        )
        running = asyncio.create_task(people.run(episodes, time.monotonic() + 60 * options.minutes))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        try:
            with suppress(asyncio.CancelledError):  # SIGTERM: what there is is printed
                await running
        finally:
            print(
                f"\nseed {options.seed}, {options.topology}, {options.minutes:g} minutes, {options.rate:g} votes/s"
            )
            print(*report(people), sep="\n", flush=True)
    return 1 if oracle.wrong or people.compared < COMPARISONS else 0


def report(campaign: Campaign) -> Iterator[str]:
    """Yield all that a campaign showed until now."""
    oracle, alarms = campaign.crowd.oracle, campaign.alarms
    votes = [vote for poll in oracle.polls for vote in poll.all_votes()]
    accepted = sum(vote.acceptance is not None for vote in votes)
    refused = sum(vote.is_refused for vote in votes)
    yield f"{len(votes)} votes: {accepted} accepted, {refused} refused"
    refunded = campaign.trade.refunded
    yield f"{len(refunded)} purchases, {sum(refunded.values())} refunded; {dict(campaign.commands.done)}"
    yield (
        f"{campaign.finals.done} contests sealed, hidden results read in {campaign.finals.hidden_reads} ways; "
        f"{campaign.readers.streams} streams; the status read {alarms.calm_reads} times without a fault"
    )
    yield from table(campaign.outcomes, oracle)
    yield from notes(campaign.outcomes, oracle, alarms.false)
    yield f"compared {campaign.compared} times{'' if campaign.compared == COMPARISONS else ': INTERRUPTED'}"
    yield f"{len(oracle.wrong)} untrue answers"
    yield from (text for _, text in oracle.wrong)


if __name__ == "__main__":
    options = arguments()
    print(f"seed {options.seed}", flush=True)
    for reason in left_out():
        print(f"LEFT OUT: {reason}", flush=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what is away is away on purpose
    if options.mutation:
        others = [f"--{name}={value}" for name, value in vars(options).items() if value and name != "mutation"]
        sys.exit(run_mutated(options.mutation, others))
    sys.exit(asyncio.run(run(options)))
