"""Scenarios: short sequences of requests and faults that meet races which random plans hardly ever meet.

Half of the schedules have one. It is written by what it does, not by what it is to find: its times, lengths and
variants are random, and the promises are those of all schedules.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final

from tests.simulation import contest_scenarios as contest
from tests.simulation import replay_scenarios as replay
from tests.simulation import server_scenarios as server
from tests.simulation import source_scenarios as source
from tests.simulation import vote_scenarios as vote
from tests.simulation.contests import limits
from tests.simulation.deployment import Shape
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import LAYOUTS, WITH_EVENTS
from tests.simulation.stage import Stage

SHARE: Final = 0.5
"""Share of the schedules that have one."""
NO_LIMITS: Final = limits(-1)
BASE: Final = {
    "free": NO_LIMITS,
    "paid": {**NO_LIMITS, "is_anonymous": True},
    "renew_free_vote": {"cooldown": 0, "days_between": 0},
    "rating": {"max_per_participant": 1, "sub_rating_configs": [{"sub_rating_id": "taste"}]},
    "ip_restriction_per_participant": -1,
    "is_vote_removal_allowed": True,
}
Rules = Callable[[Random], Mapping[str, Any]]


@dataclass(frozen=True)
class Scenario(Shape):
    """A scenario, and the deployment and the contest that it needs."""

    play: Callable[[Stage], Coroutine[Any, Any, None]]
    rules: Rules = lambda _: {}
    kinds: tuple[str, ...] = ("voteonly",)
    newer: tuple[str, ...] = ()
    """Versions of which one has a gateway and a projector beside the former ones (`memory_valkey.NEWER`)."""
    variant: str = ""

    def __str__(self) -> str:
        return self.play.__name__.replace("_", " ") + self.variant

    def document(self, rng: Random, its: Mapping[str, Any]) -> dict[str, Any]:
        """Return a contest's document with what the scenario needs."""
        config = its["contest_config"] | BASE | self.rules(rng)
        return {**its, "contest_type": rng.choice(self.kinds), "contest_config": config}


def once(rng: Random) -> Mapping[str, Any]:
    """One vote a voter, of each participant or of all."""
    return {"free": NO_LIMITS | rng.choice([{"max_participant": 1}, {"max_contest": 1}])}


def renewed(_: Random) -> Mapping[str, Any]:
    """One vote a voter and second."""
    return {"free": limits(1), "renew_free_vote": {"cooldown": 1, "days_between": 0}}


def one_of_each(rng: Random) -> Mapping[str, Any]:
    """One vote a voter and participant, of one or two participants."""
    return {"free": {"max_participant": 1, "max_contest": rng.choice([1, 2])}}


def of_an_address(most: int) -> Rules:
    return lambda _: {"ip_restriction_per_participant": most}


CLUSTER: Final[Mapping[str, Any]] = {"partitions": 2, "servers": 2}
BOUGHT: Final[Mapping[str, Any]] = {"projectors": 2, "has_purchases": True}
_SCENARIOS: Final = (
    Scenario(vote.hold_a_vote, once),
    Scenario(vote.hold_a_removal),
    Scenario(vote.append_twice),
    Scenario(vote.void_and_restore, kinds=("voteonly", "rating", "ordering")),
    Scenario(vote.replace_and_remove, renewed, kinds=("rating",)),
    Scenario(vote.replace_pending, one_of_each, kinds=("rating", "ordering")),
    Scenario(vote.hold_over_two_periods, renewed),
    Scenario(vote.buy_and_refund, **BOUGHT),
    Scenario(vote.reject_what_was_bought, **BOUGHT),
    Scenario(vote.lose_a_secret, gateways=1, **BOUGHT),
    Scenario(vote.refuse_a_purchase, **BOUGHT),
    Scenario(vote.share_an_address, of_an_address(3)),
    Scenario(vote.share_an_address, of_an_address(3), variant=" of a cluster", **CLUSTER),
    Scenario(vote.vote_in_batches, of_an_address(30), kinds=("ordering",), **CLUSTER),
    Scenario(contest.end_with_pending),
    Scenario(contest.end_behind_a_gate, partitions=2, projectors=2),
    Scenario(contest.end_by_a_wrong_clock, **CLUSTER),
    Scenario(contest.move_the_end),
    Scenario(contest.lose_a_change, projectors=2, **CLUSTER),
    Scenario(contest.hold_a_configuration),
    Scenario(contest.fence_in_a_change, partitions=2, projectors=2),
    Scenario(contest.raise_late, projectors=2, **CLUSTER),
    Scenario(contest.tear_a_change),
    Scenario(contest.reopen_in_parts),
    Scenario(contest.delete_a_contest, partitions=2, projectors=2),
    Scenario(contest.spoil_the_logs, has_purchases=True),
    Scenario(server.step_a_clock),
    Scenario(server.correct_a_clock),
    Scenario(server.lose_a_vote, once),
    Scenario(server.lose_records, once, loses_records=True),
    Scenario(server.read_after_a_loss),
    Scenario(server.lag),
    Scenario(server.forget_a_fence, projectors=2),
    Scenario(source.report_twice, has_sources=True),
    Scenario(source.report_late, partitions=2, has_sources=True),
    Scenario(replay.rebuild_votes, once, partitions=2, projectors=2, has_replays=True),
    Scenario(replay.rebuild_in_a_lag, once, has_replays=True),
    Scenario(replay.rebuild_the_catalogue_in_a_lag, projectors=2, has_replays=True, **CLUSTER),
    Scenario(replay.overtake, projectors=2, has_replays=True, **CLUSTER),
    Scenario(replay.lose_a_replay, once, projectors=2, has_replays=True),
    Scenario(replay.roll_back, has_replays=True, **CLUSTER),
    Scenario(replay.upgrade, once, gateways=1, has_replays=True, newer=LAYOUTS, **CLUSTER),
    Scenario(replay.overtake_the_former_version, gateways=1, has_replays=True, newer=("c", "cv"), **CLUSTER),
    Scenario(replay.rebuild_in_two_layouts, once, partitions=2, gateways=1, has_replays=True, newer=("c", "v")),
    Scenario(replay.rebuild_a_part_meanwhile, once, partitions=2, has_replays=True),
    Scenario(replay.know_no_event, partitions=2, gateways=1, projectors=2, newer=(WITH_EVENTS,)),
    Scenario(replay.two_replays, projectors=2, has_replays=True),
)
SCENARIOS: Final = {str(scenario): scenario for scenario in _SCENARIOS}


def some_scenario(streams: Streams) -> Scenario | None:
    """Return a schedule's scenario, if it has one. A new scenario takes its share of all others' schedules."""
    if streams["scenario"].random() >= SHARE:
        return None
    return SCENARIOS[max(SCENARIOS, key=lambda name: streams[f"scenario {name}"].random())]


def seeds_like(seed: int) -> Iterator[int]:
    """Yield the seeds with the same scenario, or none."""
    scenario = some_scenario(Streams(seed))
    return (seed for seed in count() if some_scenario(Streams(seed)) is scenario)
