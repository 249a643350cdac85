"""The Python client on a simulated clock and network; both kinds of it."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import pytest

from libs.client import (
    Accepted,
    ApiError,
    FileStore,
    MemoryStore,
    NoAnswer,
    PendingVote,
    Refused,
    StoreFull,
    Undecided,
    calls,
)
from tests.libs.client.simulated_service import LIMIT, Caller, World

pytestmark = pytest.mark.pure
FOR = {"participant_key": "p"}
ANNA = {"voter_id": "anna"}
COUNTS = b'event: counts\nid: v1\ndata: {"count": 1, "title": "a\xe2\x80\xa8b"}\n\n'
GONE = b"event: gone\ndata: {}\n\n"


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_vote_is_sent_with_one_id_until_it_is_answered(is_async: bool) -> None:
    world = World(iter(["before", 503, "after", 429, "page", 500]))
    outcome = Caller(world, is_async).vote("c", **FOR, **ANNA)
    assert isinstance(outcome, Accepted)
    assert (outcome.receipt, outcome.position) == (f"r {outcome.vote.vote_id}", "p")
    assert len(world.attempts) == 7
    assert list(world.counted) == [("anna", outcome.vote.vote_id)]
    assert world.store.all() == []


def test_a_refusal_is_data_and_forgotten(is_async: bool) -> None:
    world = World()
    caller = Caller(world, is_async)
    outcomes = [caller.vote("c", **FOR, **ANNA, vote_id=f"v{number}") for number in range(LIMIT + 1)]
    refused = outcomes[-1]
    assert isinstance(refused, Refused)
    assert (refused.code, refused.is_by_rule, refused.problem.data["limit"]) == (
        "participant_limit_reached",
        True,
        LIMIT,
    )
    wrong = caller.vote("c", **ANNA)
    assert isinstance(wrong, Refused)
    assert (wrong.code, wrong.is_by_rule) == ("validation_failed", False)
    assert world.store.all() == []


def test_an_outage_leaves_a_vote_undecided_and_it_goes_on_later(is_async: bool, tmp_path: Path) -> None:
    world = World(repeat("after"), store=FileStore(tmp_path / "votes"))
    began = world.now
    undecided = Caller(world, is_async, patience_s=60).vote("c", **FOR, **ANNA)
    assert isinstance(undecided, Undecided)
    assert world.now - began < 80
    assert len(world.attempts) < 10
    world.faults = iter(())
    world.store = FileStore(tmp_path / "votes")  # the program was started again
    restarted = Caller(world, is_async)
    assert world.store.all() == [undecided.vote]
    [accepted] = restarted.resume_all()
    assert isinstance(accepted, Accepted)
    assert accepted.vote == undecided.vote
    assert len(world.counted) == 1


def test_a_wrong_key_decides_nothing_about_the_vote(is_async: bool) -> None:
    for status in (401, 403):
        world = World(iter(["after", status]))
        undecided = Caller(world, is_async).vote("c", **FOR, **ANNA)
        assert isinstance(undecided, Undecided)
        assert undecided.problem is not None
        assert undecided.problem.status == status
        assert world.store.all() == [undecided.vote]
        assert len(world.attempts) == 2, "asking again with the same key does not help"
        assert isinstance(Caller(world, is_async).resume(undecided.vote), Accepted)


def test_a_voter_who_tries_again_has_one_vote(is_async: bool) -> None:
    world = World(repeat("after", 20))
    caller = Caller(world, is_async, patience_s=5)
    first = caller.vote("c", **FOR, **ANNA, ip="192.0.2.1")
    again = caller.vote("c", **FOR, **ANNA, ip="192.0.2.2")
    assert first.vote.vote_id == again.vote.vote_id
    assert caller.vote("c", **FOR, **ANNA, vote_id="another").vote.vote_id == "another"
    assert caller.vote("c", **FOR, voter_id="ben").vote.vote_id != first.vote.vote_id
    world.faults = iter(())
    assert isinstance(caller.vote("c", **FOR, **ANNA), Accepted)
    another = caller.vote("c", **FOR, **ANNA)  # as the first is answered
    assert another.vote.vote_id != first.vote.vote_id


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_store_is_bounded_and_stores_all_votes_of_a_batch_or_none(kind: str, tmp_path: Path) -> None:
    store = MemoryStore(3) if kind == "memory" else FileStore(tmp_path / "votes", 3)
    votes = [PendingVote.of("c", {"voter_id": f"v{number}"}) for number in range(4)]
    store.add(votes[:2])
    with pytest.raises(StoreFull):
        store.add(votes[2:])
    assert store.all() == votes[:2]
    assert store.add([PendingVote.of("c", {"voter_id": "v1"}), votes[3]]) == [votes[1], votes[3]]
    store.remove(votes[:1])
    assert store.all() == [votes[1], votes[3]]


def test_a_batch_is_split_and_only_what_is_undecided_is_sent_again(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_ITEMS", 3)
    world = World(iter([503, None, "after"]))
    votes = [FOR | {"voter_id": voter} for voter in "aaaab"] + [{"voter_id": "c"}]
    outcomes = Caller(world, is_async).vote_batch("c", iter(votes))
    kinds = [type(outcome).__name__ for outcome in outcomes]
    assert kinds == ["Accepted"] * 3 + ["Refused", "Accepted", "Refused"]
    assert [len(request.content.splitlines()) for request in world.requests] == [3, 3, 3, 3]
    assert len(world.counted) == 4
    assert world.store.all() == []
    monkeypatch.setattr(calls, "MOST_BYTES", 150)
    world.requests.clear()
    assert len(Caller(world, is_async).vote_batch("c", [FOR | {"voter_id": f"d{n}"} for n in range(3)])) == 3
    assert all(len(request.content) <= 150 for request in world.requests)


def test_a_batch_that_is_refused_as_a_whole_loses_no_outcome(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_ITEMS", 1)
    world = World(iter([None, 401]))
    first, second = Caller(world, is_async).vote_batch("c", [FOR | {"voter_id": voter} for voter in "ab"])
    assert isinstance(first, Accepted)
    assert isinstance(second, Undecided)
    assert world.store.all() == [second.vote]


def test_other_calls_are_repeated_and_raise_what_is_refused(is_async: bool) -> None:
    world = World(iter(["after", 503, "page"]))
    caller = Caller(world, is_async)
    asked = caller.counts("a/b", min_position=["p1", "p2"])["asked"]
    assert asked == "http://api/contests/a%2Fb/vote_updates?min_position=p1&min_position=p2"
    assert caller.allowance("c", voter_id="a b")["asked"] == "http://api/contests/c/allowance?voter_id=a+b"
    assert (
        caller.recorded_vote("c", "v", anonymous_id="a")["asked"] == "http://api/contests/c/votes/v?anonymous_id=a"
    )
    assert caller.votes("c", voter_id="a")["asked"] == "http://api/contests/c/votes?voter_id=a&limit=100"
    assert (
        caller.report("c", "sms", {"report_id": "r"})["asked"] == "http://api/contests/c/vote_sources/sms/counts"
    )
    assert caller.get("/contests", phase="running")["asked"] == "http://api/contests?phase=running"
    assert caller.remove("c", "v", voter_id="a") is None
    assert world.requests[-1].method == "DELETE"
    world.faults = iter([401])
    with pytest.raises(ApiError, match="unauthorized") as refused:
        caller.allowance("c", voter_id="a")
    assert refused.value.problem.status == 401
    world.faults = repeat("before")
    with pytest.raises(NoAnswer):
        caller.allowance("c", voter_id="a")


def test_a_stream_is_opened_again_after_any_end(is_async: bool) -> None:
    world = World()
    scripts: list[list[bytes | str]] = [
        ["503"],
        [b"retry: 2000\n", "phase", COUNTS[:30], COUNTS[30:], b": ping\n\n", "wait"],
        ["unreachable"],
        ["phase", b'event: counts\ndata: {"co', "break"],
        ["phase", b'event: stale\ndata: {"since": "2026"}\n\n', b": ping\n\n", "silence"],
        ["page"],
        ["phase", b"event: counts\ndata: {oops\n\n"],
        ["phase", world.phase(hidden=True)],
        ["phase", COUNTS, GONE, COUNTS],
    ]
    world.streams = iter(scripts)
    updates = Caller(world, is_async).follow("c")
    shown = [(update.results and update.results["count"], update.is_stale) for update in updates]
    lost_with, fresh_with, empty = (1, True), (1, False), (None, False)
    assert shown == [
        (None, True), empty, fresh_with, lost_with, fresh_with, lost_with, fresh_with, lost_with, fresh_with,
        lost_with, fresh_with, empty, (None, True), empty, fresh_with,
    ]  # fmt: skip
    assert updates[-1].results["title"] == "a\u2028b"
    resumed = [request.headers.get("last-event-id") for request in world.requests]
    assert resumed == [None, None, "v1", "v1", "v1", "v1", "v1", "v1", None]


def test_a_stream_that_is_refused_for_good_raises(is_async: bool) -> None:
    world = World(streams=iter([["503"], ["401"]]))
    with pytest.raises(ApiError, match="unauthorized"):
        Caller(world, is_async).follow("c")


def test_without_a_key_the_public_results_are_followed(is_async: bool) -> None:
    world = World(streams=iter([[b'event: results\ndata: {"count": null}\n\n', GONE]]))
    assert len(Caller(world, is_async, api_key=None).follow("c", receipt="r r")) == 1
    assert str(world.requests[0].url) == "http://api/public/contests/c/results/stream?receipt=r+r"
    assert "authorization" not in world.requests[0].headers
