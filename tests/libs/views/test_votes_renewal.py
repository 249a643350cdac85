"""Free allowances that renew, where random votes (`test_votes_stateful.py`) do not compare them."""

from dataclasses import replace

import pytest

from libs.tally.contest import DAY_US, Limits, Renewal
from libs.tally.reservations import Answer, OverLimit
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote, pseudonym

SECOND = 1_000_000
MIDNIGHT = 47_500 * DAY_US
MINUTELY = a_contest(free=Limits(1, 1), renewal=Renewal(cooldown_us=60 * SECOND))


def refused_until(answer: Answer) -> tuple[int | None, int]:
    """The time of the renewal, and the time at which it was answered."""
    assert isinstance(answer, OverLimit), answer
    return answer.next_free_vote_at, answer.now


async def test_a_pending_vote_renews_as_a_folded_one_does(partition: Partition) -> None:
    await partition.set_clock(MIDNIGHT)
    await partition.grant(a_vote(vote_id="1"), MINUTELY)
    await partition.set_clock(MIDNIGHT + 60 * SECOND - 1)
    assert isinstance(await partition.reserve(a_vote(vote_id="2"), MINUTELY), OverLimit)
    await partition.set_clock(MIDNIGHT + 60 * SECOND)
    assert (await partition.grant(a_vote(vote_id="2"), MINUTELY)).epoch == 1


@pytest.mark.parametrize("limits", [Limits(1, -1), Limits(-1, 1)])
async def test_no_renewal_is_named_for_what_never_fits(partition: Partition, limits: Limits) -> None:
    contest = replace(MINUTELY, free=limits)
    await partition.set_clock(MIDNIGHT)
    await partition.cast(a_vote(vote_id="1"), contest)
    assert refused_until(await partition.reserve(a_vote(count=2, vote_id="2"), contest)) == (None, MIDNIGHT + 1)


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
