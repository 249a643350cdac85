"""Ratios, medians and verdicts of the benchmarks."""

import pytest

from tests.benchmarks.load import Load, parse, together
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale, Size

REPORT = """Running 4s test @ http://127.0.0.1:8080
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   357.69us  242.03us   5.39ms   87.50%
    Req/Sec     2.50k   192.22     2.82k    73.99%
  Latency Distribution
     50%    3.09ms
     75%    4.00ms
     90%  900.00us
     99%    1.19s\x20
  8214 requests in 4.01s, 1.20MB read
  Non-2xx or 3xx responses: 3
Requests/sec:   2048.40
"""


def party(name: str, *values: float, cpu: float = 0.0) -> Party:
    return Party(name, [Run(value, {"gateway": cpu} if cpu else {}) for value in values])


def test_a_value_is_the_median_of_its_rounds() -> None:
    assert party(OURS, 1.0, 9.0, 2.0).value == 2.0


def test_a_rate_is_better_by_ours_over_theirs() -> None:
    rate = Measurement("rate", "votes/s", "higher", party(OURS, 300.0), [party("peer", 100.0)])
    assert rate.ratio(rate.peers[0]) == 3.0


def test_a_time_is_better_by_theirs_over_ours() -> None:
    time = Measurement("p99", "ms", "lower", party(OURS, 20.0), [party("peer", 50.0)])
    assert time.ratio(time.peers[0]) == 2.5


def test_a_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_the_medians() -> None:
    ours, peer = party(OURS, 10.0, 20.0, 90.0), party("peer", 10.0, 5.0, 30.0)
    assert Measurement("rate", "votes/s", "higher", ours, [peer]).ratio(peer) == 3.0


def test_rounds_that_are_no_pairs_are_compared_by_their_medians() -> None:
    ours, peer = party(OURS, 10.0, 30.0), party("peer", 5.0)
    assert Measurement("rate", "votes/s", "higher", ours, [peer]).ratio(peer) == 4.0


def test_cpu_time_is_compared_over_all_processes() -> None:
    ours = Party(OURS, [Run(1.0, {"gateway": 60.0, "Valkey": 40.0})])
    peer = party("peer", 1.0, cpu=250.0)
    assert Measurement("rate", "votes/s", "higher", ours, [peer]).cpu_ratio(peer) == 2.5


def test_cpu_time_that_was_not_weighed_has_no_ratio() -> None:
    peer = party("peer", 1.0)
    assert Measurement("rate", "votes/s", "higher", party(OURS, 1.0, cpu=5.0), [peer]).cpu_ratio(peer) is None


@pytest.mark.parametrize(("bound", "is_met"), [(2.5, True), (3.0, True), (3.5, False)])
def test_a_goal_against_a_peer_bounds_the_ratio_from_below(bound: float, is_met: bool) -> None:
    peer = party("peer", 100.0)
    rate = Measurement("rate", "votes/s", "higher", party(OURS, 300.0), [peer], goals=[Goal(bound, "peer")])
    [verdict] = rate.verdicts()
    assert (verdict.figure, verdict.is_met) == (3.0, is_met)


def test_a_goal_by_cpu_does_not_look_at_the_rate() -> None:
    peer, ours = party("peer", 900.0, cpu=30.0), party(OURS, 300.0, cpu=10.0)
    goals = [Goal(2.0, "peer", "cpu"), Goal(2.0, "peer")]
    rate = Measurement("rate", "votes/s", "higher", ours, [peer], goals=goals)
    assert [verdict.is_met for verdict in rate.verdicts()] == [True, False]


@pytest.mark.parametrize(("value", "is_met"), [(150.0, True), (160.0, True), (161.0, False)])
def test_a_goal_of_a_size_bounds_it_from_above(value: float, is_met: bool) -> None:
    size = Measurement("a voter", "bytes", "lower", party(OURS, value), goals=[Goal(160.0)])
    assert [verdict.is_met for verdict in size.verdicts()] == [is_met]


def test_a_goal_against_a_missing_peer_has_no_verdict() -> None:
    rate = Measurement("rate", "votes/s", "higher", party(OURS, 300.0), goals=[Goal(3.0, "absent")])
    assert rate.verdicts() == []


def test_each_size_picks_its_amount() -> None:
    assert [Scale.of(size).pick(1, 10) for size in Size] == [1, 10]


def test_reports_of_wrk_are_read_in_all_units() -> None:
    """Seconds are followed by a space."""
    assert parse(REPORT) == Load(2048.4, 3.09, 1190.0, 3, 8214)


def test_simultaneous_loads_add_their_rates_and_keep_the_worst_quantiles() -> None:
    both = together([Load(100.0, 3.0, 9.0, 0, 400), Load(50.0, 4.0, 8.0, 1, 200)])
    assert both == Load(150.0, 4.0, 9.0, 1, 600)
