"""Which generation a replay resumes."""

from libs.replay.targets import unfinished
from libs.views.generations.generations import Generation, PartitionGenerations, State


def a_partition(*states: State, last: int) -> PartitionGenerations:
    """Return a partition whose generation 1 is live, with others from 2 on in these states."""
    others = {number: Generation(number, state, 1, None) for number, state in enumerate(states, 2)}
    return PartitionGenerations(0, last, 1, Generation(1, State.LIVE, 1, None), others)


def test_the_latest_unfinished_generation_is_resumed() -> None:
    begun, untouched = a_partition(State.BUILDING, State.FOLLOWING, last=3), a_partition(last=1)
    assert unfinished({0: begun, 1: untouched}, [0, 1]) == 3


def test_what_a_partition_has_dropped_or_has_broken_is_not_resumed_in_it() -> None:
    begun, dropped = a_partition(State.BUILDING, last=2), a_partition(last=2)
    assert unfinished({0: begun, 1: dropped}, [0, 1]) is None
    assert unfinished({0: begun, 1: dropped}, [0]) == 2
    assert unfinished({0: a_partition(State.BUILDING, State.BROKEN, last=3)}, [0]) == 2
