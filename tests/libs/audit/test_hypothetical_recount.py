"""`tally ask`: what was asked equals a recount by counting one vote after the other; patterns are found."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.audit.hypothetical_recount import AskedFold, Hypothesis, OtherRules, weighed
from libs.audit.vote_patterns import MINUTE_US, PatternSearch
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.contest import UNLIMITED, Renewal
from libs.tally.events import Event, Fence, VoteCast
from libs.tally.fold import ContestTally
from services.cli.vote_selection import MOST_ADDRESSES, units_of
from tests.support.builders.contests import NOW, a_cast, a_removal
from tests.support.hypothesis_examples import PROPERTY

SECOND = 1_000_000

vote = st.fixed_dictionaries(
    {
        "voter": st.sampled_from(["ann", "bob", "cid"]),
        "participant": st.sampled_from("abc"),
        "count": st.integers(1, 3),
        "source": st.sampled_from(["c-free", "c-free", "c-paid"]),
        "after_s": st.integers(0, 30),
        "address": st.sampled_from([None, "x", "y"]),
        "contest": st.sampled_from(["contest", "contest", "contest", "other"]),
    }
)
limit = st.sampled_from([UNLIMITED, 1, 2, 4, 100])
rules = st.fixed_dictionaries(
    {
        "participant": limit,
        "contest": limit,
        "cooldown_s": st.sampled_from([None, None, 20, 45]),
        "weight": st.sampled_from([0, 1, 3]),
        "leaves_out": st.sampled_from([None, "x"]),
    }
)


def logged(votes: Sequence[dict[str, Any]]) -> list[VoteCast]:
    found, at = [], NOW
    for number, one in enumerate(votes):
        at += one["after_s"] * SECOND
        members = {name: one[name] for name in ("source", "address", "contest")}
        named = {"voter": one["voter"], "vote_id": f"v{number}", "accepted_at": at}
        found.append(a_cast(one["participant"], one["count"], **named, **members))
    return found


def records(events: Sequence[Event]) -> list[LogRecord]:
    values = [vote_codec.encode(event) for event in events]
    return [LogRecord(offset, NOW // 1000 + offset, value) for offset, value in enumerate(values)]


def counted_one_by_one(votes: Sequence[VoteCast], asked: dict[str, Any]) -> Counter[str]:
    """Count the free votes within the limits of their period, and all paid ones."""
    found: Counter[str] = Counter()
    used: Counter[tuple[Any, ...]] = Counter()
    period: dict[str, int] = {}
    latest: dict[str, int] = {}
    for one in votes:
        if one.contest != "contest" or (asked["leaves_out"] is not None and one.address == asked["leaves_out"]):
            continue
        [(participant, count)] = one.choices
        if one.source == "c-paid":
            found[participant] += asked["weight"] * count
            continue
        cooldown_s = asked["cooldown_s"]
        if cooldown_s and one.accepted_at >= latest.get(one.voter, 2**62) + cooldown_s * SECOND:
            period[one.voter] = period.get(one.voter, 0) + 1
        latest[one.voter] = max(latest.get(one.voter, 0), one.accepted_at)
        place = one.voter, period.get(one.voter, 0)
        within = [
            most == UNLIMITED or used[name] + count <= most
            for name, most in ((place, asked["contest"]), ((*place, participant), asked["participant"]))
        ]
        if all(within):
            used[place] += count
            used[*place, participant] += count
            found[participant] += count
    return +found


def counts_of(tally: ContestTally) -> Counter[str]:
    found: Counter[str] = Counter()
    for (participant, source), sums in tally.figures.items():
        if participant and source:
            found[participant] += sums.count
    return +found


@PROPERTY
@given(votes=st.lists(vote, max_size=20), asked=rules)
def test_other_rules_give_what_counting_one_by_one_gives(
    votes: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    casts = logged(votes)
    other = OtherRules(
        {"c-free": asked["participant"]},
        {"c-free": asked["contest"]},
        None if asked["cooldown_s"] is None else Renewal(asked["cooldown_s"] * SECOND),
        {"c-paid": asked["weight"]},
    )
    fold = AskedFold(
        "contest",
        Hypothesis(lambda cast: asked["leaves_out"] is not None and cast.address == asked["leaves_out"], other),
    )
    fold.take(records(casts))
    assert counts_of(weighed(fold.asked, other.weights)) == counted_one_by_one(casts, asked)
    everything = {
        "participant": UNLIMITED,
        "contest": UNLIMITED,
        "cooldown_s": None,
        "weight": 1,
        "leaves_out": None,
    }
    assert counts_of(fold.stands) == counted_one_by_one(casts, everything)


def test_a_removed_vote_frees_its_allowance_also_by_other_rules() -> None:
    first, second = a_cast("a", vote_id="1"), a_cast("b", vote_id="2")
    fold = AskedFold("contest", Hypothesis(lambda _: False, OtherRules(max_contest={"c-free": 1})))
    fold.take(records([first, a_removal("1"), second]))
    assert counts_of(fold.asked) == counts_of(fold.stands) == {"b": 1}


def test_votes_behind_a_fence_stay_uncounted_and_the_first_moment_ends_its_count() -> None:
    """The records are a millisecond apart."""
    events: list[Event] = [
        a_cast("a", vote_id="1"),
        Fence(1, after=0),
        a_cast("b", vote_id="2"),
        a_cast("c", vote_id="3"),
    ]
    fold = AskedFold("contest", lambda event: event, NOW // 1000)
    fold.take(records(events))
    assert (counts_of(fold.stands), counts_of(fold.asked)) == ({"a": 1}, {"a": 1})


def test_an_address_a_minute_and_hasty_voters_are_found_with_their_share() -> None:
    spread = [
        a_cast(name, voter=f"{name}{at}", vote_id=f"{name}{at}", accepted_at=NOW + at * MINUTE_US)
        for at in range(60)
        for name in "ab"
    ]
    burst = [
        a_cast("a", voter=f"bot{at}", vote_id=f"bot{at}", accepted_at=NOW + 30 * MINUTE_US + at, address="bots")
        for at in range(40)
    ]
    hasty = [
        a_cast("b", 5, voter="hasty", vote_id=f"h{at}", accepted_at=NOW + at, remaining_contest=5 - 5 * at)
        for at in range(2)
    ]
    fold = AskedFold("contest", lambda event: event)
    fold.take(records([*spread, *burst, *hasty]))
    search = PatternSearch()
    search.add(fold.stands)
    address, minute, limit = search.found(least=10, most=5)
    assert (address.kind, address.name, address.votes, address.voters) == ("address", "bots", 40, 40)
    assert address.share == 0.4
    assert (minute.kind, minute.participant, minute.votes) == ("minute", "a", 41)
    assert (limit.kind, limit.participant, limit.votes, limit.voters) == ("limit within seconds", "b", 10, 1)
    assert search.found(least=100, most=5) == []
    assert PatternSearch().found(least=1, most=5) == []


@pytest.mark.parametrize(
    ("given_address", "units"),
    [
        ("203.0.113.7", ["203.0.113.7"]),
        ("203.0.113.0/30", [f"203.0.113.{at}" for at in range(4)]),
        ("2001:db8::7", ["2001:db8::/64"]),
        ("2001:db8::/63", ["2001:db8::/64", "2001:db8:0:1::/64"]),
        ("2001:db8::/96", ["2001:db8::/64"]),
        ("A" * 22, []),
    ],
)
def test_an_address_a_network_and_a_pseudonym_select_votes(given_address: str, units: list[str]) -> None:
    assert units_of(given_address) == units


def test_a_network_has_a_largest_size() -> None:
    with pytest.raises(Exception, match=f"more than {MOST_ADDRESSES:,} addresses"):
        units_of("10.0.0.0/8")
