"""Free allowances renew at the exact microsecond."""

from dataclasses import replace

import pytest

from libs.tally.contest import DAY_US, Limits, Renewal
from libs.tally.reservations import Answer, Granted, OverLimit
from tests.libs.views.partition import Partition
from tests.support.builders import a_contest, a_vote, pseudonym

SECOND = 1_000_000
MIDNIGHT = 47_500 * DAY_US
MINUTELY = a_contest(free=Limits(1, 1), renewal=Renewal(cooldown_us=60 * SECOND))
DAILY = a_contest(free=Limits(1, 1), renewal=Renewal(days_between=1))


def refused_until(answer: Answer) -> tuple[int | None, int]:
    """The time of the renewal, and the time at which it was answered."""
    assert isinstance(answer, OverLimit), answer
    return answer.next_free_vote_at, answer.now


async def test_an_allowance_is_whole_again_once_it_has_cooled_down(partition: Partition) -> None:
    await partition.set_clock(MIDNIGHT)
    first = await partition.cast(a_vote(vote_id="1"), MINUTELY)
    renews_at = MIDNIGHT + 60 * SECOND
    assert (first.epoch, first.terms.next_free_vote_at) == (0, renews_at)
    await partition.set_clock(renews_at - 1)
    assert refused_until(await partition.reserve(a_vote(vote_id="2"), MINUTELY)) == (renews_at, renews_at - 1)
    await partition.set_clock(renews_at)
    second = await partition.cast(a_vote(vote_id="2"), MINUTELY)
    assert (second.epoch, second.terms.remaining_contest) == (1, 0)
    assert second.terms.next_free_vote_at == renews_at + 60 * SECOND


async def test_a_pending_vote_renews_as_a_folded_one_does(partition: Partition) -> None:
    await partition.set_clock(MIDNIGHT)
    await partition.grant(a_vote(vote_id="1"), MINUTELY)
    await partition.set_clock(MIDNIGHT + 60 * SECOND - 1)
    assert isinstance(await partition.reserve(a_vote(vote_id="2"), MINUTELY), OverLimit)
    await partition.set_clock(MIDNIGHT + 60 * SECOND)
    assert (await partition.grant(a_vote(vote_id="2"), MINUTELY)).epoch == 1


@pytest.mark.parametrize("before_midnight", [1, DAY_US])
async def test_days_between_end_at_midnight(partition: Partition, before_midnight: int) -> None:
    await partition.set_clock(MIDNIGHT - before_midnight)
    await partition.cast(a_vote(vote_id="1"), DAILY)
    await partition.set_clock(MIDNIGHT - 1)
    assert refused_until(await partition.reserve(a_vote(vote_id="2"), DAILY)) == (MIDNIGHT, MIDNIGHT - 1)
    await partition.set_clock(MIDNIGHT)
    assert (await partition.grant(a_vote(vote_id="2"), DAILY)).epoch == 1


@pytest.mark.parametrize(
    ("renewal", "renews_at"),
    [
        (Renewal(cooldown_us=10 * SECOND, days_between=1), DAY_US),
        (Renewal(cooldown_us=DAY_US + SECOND, days_between=1), DAY_US + 2 * SECOND),
        (Renewal(cooldown_us=DAY_US, days_between=3), 3 * DAY_US),
    ],
)
async def test_with_both_it_is_the_later(partition: Partition, renewal: Renewal, renews_at: int) -> None:
    contest = replace(MINUTELY, renewal=renewal)
    await partition.set_clock(MIDNIGHT + SECOND)
    granted = await partition.cast(a_vote(vote_id="1"), contest)
    assert granted.terms.next_free_vote_at == MIDNIGHT + renews_at == renewal.after(MIDNIGHT + SECOND)
    await partition.set_clock(MIDNIGHT + renews_at - 1)
    assert isinstance(await partition.reserve(a_vote(vote_id="2"), contest), OverLimit)
    await partition.set_clock(MIDNIGHT + renews_at)
    assert isinstance(await partition.reserve(a_vote(vote_id="2"), contest), Granted)


@pytest.mark.parametrize("limits", [Limits(1, -1), Limits(-1, 1)])
async def test_no_renewal_is_named_for_what_never_fits(partition: Partition, limits: Limits) -> None:
    contest = replace(MINUTELY, free=limits)
    await partition.set_clock(MIDNIGHT)
    await partition.cast(a_vote(vote_id="1"), contest)
    assert refused_until(await partition.reserve(a_vote(count=2, vote_id="2"), contest)) == (None, MIDNIGHT + 1)


async def test_paid_votes_neither_renew_nor_put_it_off(partition: Partition) -> None:
    contest = replace(MINUTELY, paid=Limits(1, 1))
    await partition.set_clock(MIDNIGHT)
    await partition.cast(a_vote(vote_id="free"), contest)
    await partition.set_clock(MIDNIGHT + 50 * SECOND)
    paid = await partition.grant(a_vote(vote_id="paid", source="c-paid"), contest)
    assert (paid.epoch, paid.terms.next_free_vote_at) == (0, None)
    await partition.set_clock(MIDNIGHT + 60 * SECOND)
    assert (await partition.grant(a_vote(vote_id="again"), contest)).epoch == 1
    await partition.set_clock(MIDNIGHT + DAY_US)
    assert refused_until(await partition.reserve(a_vote(vote_id="p", source="c-paid"), contest))[0] is None


async def test_a_voter_does_not_grow_by_periods_that_are_over(partition: Partition) -> None:
    sizes = []
    await partition.set_clock(MIDNIGHT)
    for at in range(24):
        await partition.set_clock(MIDNIGHT + at * 60 * SECOND)
        granted = await partition.cast(a_vote("ab"[at % 2], vote_id=str(at)), MINUTELY)
        assert (granted.epoch, granted.terms.remaining_contest) == (at, 0)
        sizes.append(len((await partition.views.allowance(0, "contest", pseudonym("voter"))).used))
    assert sizes == [2, 4, 6] + [7] * 21


async def test_a_contest_that_begins_to_renew_goes_by_the_votes_of_before(partition: Partition) -> None:
    before = replace(MINUTELY, renewal=Renewal(), paid=Limits(-1, -1))
    await partition.set_clock(MIDNIGHT)
    await partition.cast(a_vote(vote_id="1"), before)
    await partition.set_clock(MIDNIGHT + 10 * SECOND)
    for n in range(7):
        await partition.cast(a_vote(vote_id=f"paid{n}", source="c-paid"), before)
    await partition.set_clock(MIDNIGHT + 59 * SECOND)
    assert refused_until(await partition.reserve(a_vote(vote_id="2"), MINUTELY))[0] == MIDNIGHT + 60 * SECOND
    await partition.set_clock(MIDNIGHT + 60 * SECOND)
    assert (await partition.grant(a_vote(vote_id="2"), MINUTELY)).epoch == 1


async def test_an_allowance_shows_the_period_and_the_latest_free_vote(partition: Partition) -> None:
    voter = pseudonym("voter")
    await partition.set_clock(MIDNIGHT)
    never = await partition.views.allowance(0, "contest", voter)
    assert (never.now, never.epoch, never.latest, list(never.used)) == (MIDNIGHT, 0, None, [])
    await partition.cast(a_vote(vote_id="1"), MINUTELY)
    await partition.set_clock(MIDNIGHT + 90 * SECOND)
    await partition.grant(a_vote(count=1, vote_id="2"), MINUTELY)
    both = await partition.views.allowance(0, "contest", voter)
    assert (both.now, both.epoch, both.latest) == (MIDNIGHT + 90 * SECOND + 1, 1, MIDNIGHT + 90 * SECOND)
    assert sorted(both.used) == sorted((name, "c-free", epoch, 1) for name in ("a", "") for epoch in (0, 1))
