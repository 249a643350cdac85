"""Times of a contest: its phase at an instant, and the renewal of free allowances."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.tally.contest import Phase, Renewal
from tests.support.builders.contests import a_contest


@pytest.mark.parametrize(
    ("publish", "start", "end", "phase"),
    [
        (None, 10, 200, Phase.SETUP),
        (101, 10, 200, Phase.SETUP),
        (101, None, None, Phase.SETUP),
        (100, None, None, Phase.ANNOUNCED),
        (1, None, 50, Phase.ANNOUNCED),
        (1, 101, 200, Phase.ANNOUNCED),
        (100, 100, None, Phase.RUNNING),
        (1, 10, 101, Phase.RUNNING),
        (1, 10, 100, Phase.FINISHED),
        (1, 10, 99, Phase.FINISHED),
        (1, 10, 5, Phase.FINISHED),
    ],
)
def test_the_phase_at_100(publish: int | None, start: int | None, end: int | None, phase: Phase) -> None:
    assert a_contest(publish=publish, start=start, end=end).phase(100) is phase


@pytest.mark.parametrize("publish", [None, 5, 20])
@pytest.mark.parametrize("start", [None, 5, 20])
@pytest.mark.parametrize("end", [None, 3, 10, 25])
def test_the_span_that_the_ledger_gets_is_the_running_phase(
    publish: int | None, start: int | None, end: int | None
) -> None:
    contest = a_contest(publish=publish, start=start, end=end)
    span = contest.runs()
    for now in range(1, 30):
        inside = span is not None and span[0] <= now and (span[1] == -1 or now < span[1])
        assert inside == (contest.phase(now) is Phase.RUNNING)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.integers(0, 2**52)
cooldowns = st.integers(1, 10**14)
days = st.integers(1, 1_000)


def us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@given(moments)
def test_without_either_it_never_does(latest: int) -> None:
    assert not Renewal()
    assert Renewal().after(latest) is None


@given(moments, cooldowns)
def test_a_cooldown_is_counted_from_the_vote(latest: int, cooldown: int) -> None:
    assert Renewal(cooldown_us=cooldown).after(latest) == latest + cooldown


@given(moments, days)
def test_days_end_at_a_midnight_that_many_days_after_the_day_of_the_vote(latest: int, between: int) -> None:
    renews_at = Renewal(days_between=between).after(latest)
    assert renews_at is not None
    vote, moment = (EPOCH + timedelta(microseconds=at) for at in (latest, renews_at))
    assert moment.time().isoformat() == "00:00:00"
    assert (moment.date() - vote.date()).days == between


@given(moments, cooldowns, days)
def test_with_both_it_is_the_later(latest: int, cooldown: int, between: int) -> None:
    each = Renewal(cooldown_us=cooldown).after(latest), Renewal(days_between=between).after(latest)
    assert Renewal(cooldown, between).after(latest) == max(moment or 0 for moment in each)


@given(moments, moments, st.integers(0, 10**14), st.integers(0, 1_000))
def test_a_later_vote_never_renews_earlier(one: int, other: int, cooldown: int, between: int) -> None:
    first, second = (Renewal(cooldown, between).after(at) for at in sorted((one, other)))
    assert (first is None) == (second is None)
    assert first is None or (second is not None and min(one, other) < first <= second)


@pytest.mark.parametrize(
    ("vote", "renews"),
    [
        ("2026-02-28T23:59:59.999999+00:00", "2026-03-01T00:00:00+00:00"),
        ("2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00"),
        ("2028-02-28T12:00:00+00:00", "2028-02-29T00:00:00+00:00"),
    ],
)
def test_a_day_is_a_day_of_utc(vote: str, renews: str) -> None:
    latest = us(datetime.fromisoformat(vote))
    assert Renewal(days_between=1).after(latest) == us(datetime.fromisoformat(renews))
