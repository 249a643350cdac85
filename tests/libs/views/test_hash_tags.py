"""Tags of partitions: equal numbers of partitions on the shards of any cluster."""

from bisect import bisect_left
from itertools import pairwise
from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from libs.contracts.topics import Topic, VotesLog
from libs.views.valkey.hash_tags import SLOTS, Prefix, base_in, key_base, partition_in, shard_borders, slot_of

PREFIXES = st.sampled_from(get_args(Prefix))
PARTITIONS = st.integers(16, 1024)


def held(prefix: Prefix, partitions: int, shards: int) -> list[int]:
    """Return the number of partitions on each shard."""
    keys = (key_base("ns", prefix, partition, partitions) for partition in range(partitions))
    slots = sorted(slot_of(f"{key}:gate".encode()) for key in keys)
    return [bisect_left(slots, end) - bisect_left(slots, begin) for begin, end in pairwise(shard_borders(shards))]


@given(prefix=PREFIXES, partitions=PARTITIONS, shards=st.integers(3, 64))
@example(prefix="catalogue", partitions=4, shards=4)
@example(prefix="votes", partitions=16, shards=8)
@example(prefix="votes", partitions=697, shards=58)
@example(prefix="votes", partitions=1024, shards=64)
def test_no_two_shards_differ_by_more_than_one_partition(prefix: Prefix, partitions: int, shards: int) -> None:
    found = held(prefix, partitions, min(shards, partitions))
    assert sum(found) == partitions
    assert max(found) - min(found) <= 1


@given(begun=st.integers(1, 200), partitions=st.integers(1, 200))
def test_no_two_topics_of_the_votes_share_a_tag(begun: int, partitions: int) -> None:
    log, grown = VotesLog("ns", begun), VotesLog("ns", begun)
    grown.add([grown.next_topic(partitions)])
    bases = {base_in(grown, "ns", "votes", partition): partition for partition in grown.numbers}
    assert len(bases) == begun + partitions
    assert [base_in(log, "ns", "votes", partition) for partition in log.numbers] == list(bases)[:begun]
    for base, partition in bases.items():
        assert partition_in(f"{base}:g1:position", "ns", "votes", grown) == partition
        assert partition_in(f"{base}:g1:position", "ns", "votes", log) == (
            partition if partition < begun else None
        )


@given(prefix=PREFIXES, partitions=PARTITIONS, data=st.data())
def test_the_partition_is_read_from_its_own_keys_only(
    prefix: Prefix, partitions: int, data: st.DataObject
) -> None:
    partition = data.draw(st.integers(0, partitions - 1))
    base, log = key_base("ns", prefix, partition, partitions), Topic("any", partitions)
    assert partition_in(f"{base}:g1:position", "ns", prefix, log) == partition
    for other in get_args(Prefix):
        if other != prefix:
            assert partition_in(f"{base}:g1:position", "ns", other, log) is None
    assert partition_in(f"{base}:g1:position", "another", prefix, log) is None
    assert partition_in(f"ns:{{{partition}}}:g1:position", "ns", prefix, log) is None


def test_slots_are_those_of_valkey() -> None:
    """Examples of the cluster's specification."""
    assert slot_of(b"123456789") == 0x31C3
    assert slot_of(b"{user1000}.following") == slot_of(b"{user1000}.followers") == slot_of(b"user1000")
    assert slot_of(b"foo{{bar}}zap") == slot_of(b"{bar")
    assert 0 <= slot_of(b"foo{}{bar}") < SLOTS
