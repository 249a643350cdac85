"""The oracle notices each kind of untrue answer, and only those; a seed always gives the same schedule."""

import time
from itertools import islice
from typing import Any

import pytest

from tests.campaign.faults import faults_of
from tests.campaign.oracle import IP_LIMIT, Oracle, Poll, Rule, Vote, judge_addresses, judge_counts, judge_voter
from tests.campaign.plan import plan
from tests.campaign.stage import TOPOLOGIES
from tests.simulation.faults import Streams
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Contest

ANSWER = {"vote_id": "1", "accepted_at": "now"}


def poll(*, most: int = 2) -> Poll:
    return Poll("plain", Contest(http_client(), "final", ["anna"]), [Rule(most, 0.0, 0.0)])


def cast(oracle: Oracle, of: Poll, vote_id: str, status: int | None, *, slot: str = "", **body: Any) -> Vote:
    """Send a vote of the voter `v`; None: its answer is lost."""
    vote = oracle.vote(of, "v", slot or vote_id, vote_id, {})
    if status is None:
        vote.unanswered = 1
    else:
        oracle.answered(of, vote, time.monotonic(), status, body or ANSWER)
    return vote


def shown(*counting: str, **statuses: str) -> dict[str, dict[str, Any]]:
    choices = [{"participant_key": "anna", "count": 1}]
    always = {"choices": choices, "accepted_at": "2026-01-01T00:00:00Z"}
    found = {each: always | {"counts": True, "status": "counted"} for each in counting}
    return found | {each: always | {"counts": False, "status": of} for each, of in statuses.items()}


def test_true_answers_are_not_noticed() -> None:
    oracle, of = Oracle(), poll()
    cast(oracle, of, "a", 201)
    cast(oracle, of, "b", None)
    assert not [*judge_voter(of, "v", shown("a")), *judge_voter(of, "v", shown("a", "b"))]
    assert not oracle.wrong


def test_a_lost_vote_is_noticed() -> None:
    oracle, of = Oracle(), poll()
    cast(oracle, of, "a", 201)
    assert list(judge_voter(of, "v", {}))
    assert list(judge_voter(of, "v", shown(a="late")))


def test_a_refused_or_removed_vote_that_counts_is_noticed() -> None:
    oracle, of = Oracle(), poll(most=1)
    cast(oracle, of, "a", 201).removal = "removed"
    cast(oracle, of, "b", 409, code="contest_limit_reached")
    assert len(list(judge_voter(of, "v", shown("a")))) == 1
    assert len(list(judge_voter(of, "v", shown("b", a="removed")))) == 1


def test_votes_over_a_limit_and_two_of_one_slot_are_noticed() -> None:
    oracle, of = Oracle(), poll(most=1)
    cast(oracle, of, "a", None, slot="anna")
    cast(oracle, of, "b", None, slot="anna")
    assert len(list(judge_voter(of, "v", shown("a", "b")))) == 2


def test_the_last_accepted_vote_of_a_slot_must_count() -> None:
    oracle, of = Oracle(), poll()
    cast(oracle, of, "a", 201, slot="anna")
    cast(oracle, of, "b", 201, slot="anna")
    assert not list(judge_voter(of, "v", shown("b", a="replaced")))
    assert list(judge_voter(of, "v", shown("a", b="replaced")))


def test_another_answer_to_the_same_vote_is_noticed() -> None:
    oracle, of = Oracle(), poll()
    vote = cast(oracle, of, "a", 201)
    oracle.answered(of, vote, time.monotonic(), 200, ANSWER | {"accepted_at": "later"})
    assert len(oracle.wrong) == 1


def test_a_refusal_below_the_limit_is_noticed() -> None:
    oracle, of = Oracle(), poll(most=2)
    cast(oracle, of, "a", 201)
    cast(oracle, of, "b", 409, code="contest_limit_reached")
    assert len(oracle.wrong) == 1


def test_a_vote_that_is_accepted_after_final_counts_is_noticed() -> None:
    oracle, of = Oracle(), poll()
    of.closed.append([0.0, time.monotonic() + 60])
    cast(oracle, of, "a", 201)
    assert len(oracle.wrong) == 1


def test_counts_that_are_not_the_sum_of_the_votes_are_noticed() -> None:
    of, votes = poll(), {"v": shown("a", "b"), "w": shown("c")}
    sums = {"count": 3, "unique_voter_count": 2}
    assert not list(judge_counts(of, sums | {"participants": {"anna": sums}}, votes))
    for wrong in ({"count": 4}, {"unique_voter_count": 3}):
        assert list(judge_counts(of, sums | wrong | {"participants": {"anna": sums}}, votes))
        assert list(judge_counts(of, sums | {"participants": {"anna": sums | wrong}}, votes))


def test_votes_over_the_limit_between_two_renewals_are_noticed() -> None:
    oracle, of = Oracle(), poll(most=1)
    of.cooldown_s = 20
    for vote_id in ("a", "b", "c"):
        cast(oracle, of, vote_id, 201)
    times = {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:00:20Z", "c": "2026-01-01T00:01:00Z"}
    votes = {vote_id: one | {"accepted_at": times[vote_id]} for vote_id, one in shown("a", "b", "c").items()}
    assert not list(judge_voter(of, "v", votes))
    votes["b"]["accepted_at"] = "2026-01-01T00:00:19.999Z"
    assert len(list(judge_voter(of, "v", votes))) == 1


def test_votes_between_two_renewals_are_counted_across_a_correction_of_the_clock() -> None:
    oracle, of = Oracle(), poll(most=2)
    of.cooldown_s = 20
    for vote_id in ("a", "b", "c", "d"):
        cast(oracle, of, vote_id, 201)
    seconds = {"a": "00:00", "b": "00:01", "c": "05:00", "d": "00:10"}
    votes = {
        each: one | {"accepted_at": f"2026-01-01T00:{seconds[each]}Z"} for each, one in shown(*seconds).items()
    }
    assert not list(judge_voter(of, "v", votes))


def test_votes_over_the_limit_of_an_address_are_noticed_where_nothing_was_disturbed() -> None:
    oracle, of = Oracle(), poll()
    of.address_limit = 1
    of.refusals |= {IP_LIMIT}
    cast(oracle, of, "a", 201)
    cast(oracle, of, "b", 409, code=IP_LIMIT)
    assert not [*judge_addresses(of, []), *oracle.wrong]
    cast(oracle, of, "c", 201)
    assert len(list(judge_addresses(of, []))) == 1
    assert not list(judge_addresses(of, [(0.0, time.monotonic())]))


def test_a_refusal_below_the_limit_of_an_address_is_noticed() -> None:
    oracle, of = Oracle(), poll()
    of.address_limit = 2
    of.refusals |= {IP_LIMIT}
    cast(oracle, of, "a", 201)
    cast(oracle, of, "b", 409, code=IP_LIMIT)
    assert len(oracle.wrong) == 1


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_a_seed_gives_one_schedule_of_all_faults(topology: str) -> None:
    faults = {name: fault.hits for name, fault in faults_of(topology).items()}
    first, again, other = (list(islice(plan(Streams(seed), faults), len(faults))) for seed in (1, 1, 2))
    assert first == again != other
    assert {episode.faults[0] for episode in first} == {*faults}
