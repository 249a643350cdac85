"""Scenarios: short sequences of requests and faults that meet races which random plans hardly ever meet.

Half of the schedules have one. It is written by what it does, not by what it is to find: its times, lengths and
variants are random, and the promises are those of all schedules.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.simulation import (
    contest_scenarios,
    replay_scenarios,
    server_scenarios,
    source_scenarios,
    vote_scenarios,
)
from tests.simulation.faults import Streams
from tests.simulation.memory_valkey import LAYOUTS, WITH_EVENTS
from tests.simulation.stage import Stage

NO_LIMITS: Final = {"max_participant": -1, "max_contest": -1}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, and the deployment and the contest that it needs."""

    play: Callable[[Stage], Coroutine[Any, Any, None]]
    rules: Callable[[Random], Mapping[str, Any]] = lambda _: {}
    kinds: tuple[str, ...] = ("voteonly",)
    partitions: int = 1
    servers: int = 1
    gateways: int = 2
    projectors: int = 1
    has_purchases: bool = False
    has_replays: bool = False
    has_sources: bool = False
    newer: tuple[str, ...] = ()
    """Versions of which one has a gateway and a projector beside the former ones (`memory_valkey.NEWER`)."""

    def document(self, rng: Random, its: Mapping[str, Any]) -> dict[str, Any]:
        """Return a contest's document with what the scenario needs."""
        config = its["contest_config"] | BASE | self.rules(rng)
        return {**its, "contest_type": rng.choice(self.kinds), "contest_config": config}


BASE: Final = {
    "free": NO_LIMITS,
    "paid": {**NO_LIMITS, "is_anonymous": True},
    "renew_free_vote": {"cooldown": 0, "days_between": 0},
    "rating": {"max_per_participant": 1, "sub_rating_configs": [{"sub_rating_id": "taste"}]},
    "ip_restriction_per_participant": -1,
    "is_vote_removal_allowed": True,
}


def once(rng: Random) -> Mapping[str, Any]:
    """One vote a voter, of each participant or of all."""
    return {
        "free": rng.choice([{"max_participant": 1, "max_contest": -1}, {"max_participant": -1, "max_contest": 1}])
    }


def renewed(_: Random) -> Mapping[str, Any]:
    """One vote a voter and second."""
    return {
        "free": {"max_participant": 1, "max_contest": 1},
        "renew_free_vote": {"cooldown": 1, "days_between": 0},
    }


SCENARIOS: Final = {
    "hold a vote": Scenario(vote_scenarios.hold_a_vote, once),
    "hold a removal": Scenario(vote_scenarios.hold_a_removal),
    "append twice": Scenario(vote_scenarios.append_twice),
    "void and restore": Scenario(vote_scenarios.void_and_restore, kinds=("voteonly", "rating", "ordering")),
    "end with pending": Scenario(contest_scenarios.end_with_pending),
    "end behind a gate": Scenario(contest_scenarios.end_behind_a_gate, partitions=2, projectors=2),
    "end by a wrong clock": Scenario(contest_scenarios.end_by_a_wrong_clock, partitions=2, servers=2),
    "step a clock": Scenario(server_scenarios.step_a_clock),
    "move the end": Scenario(contest_scenarios.move_the_end),
    "lose a change": Scenario(contest_scenarios.lose_a_change, partitions=2, servers=2, projectors=2),
    "hold a configuration": Scenario(contest_scenarios.hold_a_configuration),
    "fence in a change": Scenario(contest_scenarios.fence_in_a_change, partitions=2, projectors=2),
    "raise late": Scenario(contest_scenarios.raise_late, partitions=2, servers=2, projectors=2),
    "tear a change": Scenario(contest_scenarios.tear_a_change),
    "lose a vote": Scenario(server_scenarios.lose_a_vote, once),
    "read after a loss": Scenario(server_scenarios.read_after_a_loss),
    "replace and remove": Scenario(vote_scenarios.replace_and_remove, renewed, kinds=("rating",)),
    "replace pending": Scenario(
        vote_scenarios.replace_pending,
        lambda rng: {"free": {"max_participant": 1, "max_contest": rng.choice([1, 2])}},
        kinds=("rating", "ordering"),
    ),
    "hold over two periods": Scenario(vote_scenarios.hold_over_two_periods, renewed),
    "lag": Scenario(server_scenarios.lag),
    "reopen in parts": Scenario(contest_scenarios.reopen_in_parts),
    "forget a fence": Scenario(server_scenarios.forget_a_fence, projectors=2),
    "buy and refund": Scenario(vote_scenarios.buy_and_refund, projectors=2, has_purchases=True),
    "reject what was bought": Scenario(vote_scenarios.reject_what_was_bought, projectors=2, has_purchases=True),
    "lose a secret": Scenario(vote_scenarios.lose_a_secret, gateways=1, projectors=2, has_purchases=True),
    "delete a contest": Scenario(contest_scenarios.delete_a_contest, partitions=2, projectors=2),
    "spoil the logs": Scenario(contest_scenarios.spoil_the_logs, has_purchases=True),
    "refuse a purchase": Scenario(vote_scenarios.refuse_a_purchase, projectors=2, has_purchases=True),
    "correct a clock": Scenario(server_scenarios.correct_a_clock),
    "share an address": Scenario(vote_scenarios.share_an_address, lambda _: {"ip_restriction_per_participant": 3}),
    "share an address of a cluster": Scenario(
        vote_scenarios.share_an_address, lambda _: {"ip_restriction_per_participant": 3}, partitions=2, servers=2
    ),
    "report twice": Scenario(source_scenarios.report_twice, has_sources=True),
    "report late": Scenario(source_scenarios.report_late, partitions=2, has_sources=True),
    "rebuild votes": Scenario(replay_scenarios.rebuild_votes, once, partitions=2, projectors=2, has_replays=True),
    "rebuild in a lag": Scenario(replay_scenarios.rebuild_in_a_lag, once, has_replays=True),
    "rebuild the catalogue in a lag": Scenario(
        replay_scenarios.rebuild_the_catalogue_in_a_lag, partitions=2, servers=2, projectors=2, has_replays=True
    ),
    "overtake": Scenario(replay_scenarios.overtake, partitions=2, servers=2, projectors=2, has_replays=True),
    "lose a replay": Scenario(replay_scenarios.lose_a_replay, once, projectors=2, has_replays=True),
    "roll back": Scenario(replay_scenarios.roll_back, partitions=2, servers=2, has_replays=True),
    "upgrade": Scenario(
        replay_scenarios.upgrade, once, partitions=2, servers=2, gateways=1, has_replays=True, newer=LAYOUTS
    ),
    "overtake the former version": Scenario(
        replay_scenarios.overtake_the_former_version,
        partitions=2,
        servers=2,
        gateways=1,
        has_replays=True,
        newer=("c", "cv"),
    ),
    "rebuild in two layouts": Scenario(
        replay_scenarios.rebuild_in_two_layouts,
        once,
        partitions=2,
        gateways=1,
        has_replays=True,
        newer=("c", "v"),
    ),
    "rebuild a part meanwhile": Scenario(
        replay_scenarios.rebuild_a_part_meanwhile, once, partitions=2, has_replays=True
    ),
    "know no event": Scenario(
        replay_scenarios.know_no_event, partitions=2, gateways=1, projectors=2, newer=(WITH_EVENTS,)
    ),
    "two replays": Scenario(replay_scenarios.two_replays, projectors=2, has_replays=True),
    "vote in batches": Scenario(
        vote_scenarios.vote_in_batches,
        lambda _: {"ip_restriction_per_participant": 30},
        kinds=("ordering",),
        partitions=2,
        servers=2,
    ),
}
"""By name."""
SHARE: Final = 0.5
"""Share of the schedules that have one."""


def some_scenario(streams: Streams) -> Scenario | None:
    """Return a schedule's scenario, if it has one. A new scenario takes its share of all others' schedules."""
    if streams["scenario"].random() >= SHARE:
        return None
    return SCENARIOS[max(SCENARIOS, key=lambda name: streams[f"scenario {name}"].random())]
