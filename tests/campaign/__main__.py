"""`python -m tests.campaign`: runs a campaign of faults against a stack of its own, and prints its table."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from tests.campaign.campaign import Campaign
from tests.campaign.clients import Crowd, open_polls
from tests.campaign.commands import Commands
from tests.campaign.faults import faults_of, left_out
from tests.campaign.mutated import run_mutated
from tests.campaign.operators import Operator
from tests.campaign.oracle import Oracle
from tests.campaign.plan import plan
from tests.campaign.report import bitten, table
from tests.campaign.stage import TOPOLOGIES, open_stage
from tests.campaign.trade import open_trade
from tests.simulation.faults import Streams
from tests.support.http_clients import http_client

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
    chosen = {name: faults[name] for name in names}
    episodes = plan(streams, {name: fault.hits for name, fault in chosen.items()})
    if options.show:
        print(*islice(episodes, options.show), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="campaign-") as directory:
        async with open_stage(options.topology, Path(directory) / "stack", streams["members"]) as stage:
            description = stage.stack.stack
            headers = {"Authorization": f"Bearer {description['api_key']}"}
            async with http_client(base_url=description["base_url"], headers=headers, timeout=TIMEOUT_S) as client:
                polls = await open_polls(client)
                oracle.polls += polls.values()
                stage.untrue, stage.doubt = oracle.untrue, oracle.doubt
                stage.contest = polls["batches"].contest.key
                crowd = Crowd(client, oracle, polls, streams, options.rate)
                operator = Operator(crowd, description["operations_url"], streams["operator"])
                trade = await open_trade(crowd, streams["trade"])
                commands = Commands(crowd, stage.stack.data_dir, streams["commands"])
                campaign = Campaign(stage, crowd, operator, trade, commands, faults)
                await campaign.run(episodes, time.monotonic() + 60 * options.minutes)
    print(f"\nseed {options.seed}, {options.topology}, {options.minutes:g} minutes, {options.rate:g} votes/s")
    votes = [vote for poll in oracle.polls for vote in poll.all_votes()]
    accepted = sum(vote.acceptance is not None for vote in votes)
    print(f"{len(votes)} votes: {accepted} accepted, {sum(vote.is_refused for vote in votes)} refused")
    print(f"{len(trade.refunded)} purchases, {sum(trade.refunded.values())} refunded; {dict(commands.done)}")
    print(*table(campaign.outcomes, oracle), sep="\n")
    met = {fault for outcome in campaign.outcomes for fault in outcome.episode.faults}
    print("not shown to have bitten:", ", ".join(sorted(met - bitten(campaign.outcomes, oracle))) or "none")
    print(*(f"did not bite: {one.episode}: {one.did_not_bite}" for one in campaign.outcomes if one.did_not_bite))
    print(f"{len(oracle.wrong)} untrue answers")
    print(*(text for _, text in oracle.wrong), sep="\n")
    return 1 if oracle.wrong else 0


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
