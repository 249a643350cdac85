"""The votes log: partitions numbered through its topics, and their places in Kafka."""

import pytest

from libs.contracts.topics import Topic, VotesLog
from libs.tally.errors import ViewsUnavailable


def grown() -> VotesLog:
    """A log that began with 4 partitions and grew by 2 and by 8."""
    log = VotesLog("tally", 4)
    for partitions in (2, 8):
        log.add([log.next_topic(partitions)])
    return log


def test_a_growth_changes_no_number_and_no_place() -> None:
    log, before = grown(), VotesLog("tally", 4)
    assert [log.place("tally.votes", partition) for partition in before.numbers] == [
        before.place("tally.votes", partition) for partition in before.numbers
    ]
    assert log.topic_from(0) == before.topic_from(0)


def test_topics_are_named_after_their_first_partition_and_number_theirs_on() -> None:
    log = grown()
    assert [(topic.name, topic.numbers) for topic in log.topics] == [
        ("tally.votes", range(4)),
        ("tally.votes.4", range(4, 6)),
        ("tally.votes.6", range(6, 14)),
    ]
    assert (log.numbers, log.partitions, log.end) == (list(range(14)), 14, 14)
    assert [log.place("tally.votes", partition) for partition in (3, 4, 13)] == [
        ("tally.votes", 3),
        ("tally.votes.4", 0),
        ("tally.votes.6", 7),
    ]
    assert log.place("tally.purchases", 7) == ("tally.purchases", 7)


def test_a_key_lies_in_the_same_place_of_each_topic_of_as_many_partitions() -> None:
    begun, later = Topic("tally.votes", 8), grown().topic_from(6)
    keys = [f"voter {number}" for number in range(200)]
    assert [later.partition_of(key) for key in keys] == [6 + begun.partition_of(key) for key in keys]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("tally.votes.16", 16),
        ("tally.votes", None),
        ("tally.votes.0", None),
        ("tally.votes.016", None),
        ("tally.votes.x", None),
        ("tally.votes.", None),
        ("tally-test.votes.16", None),
        ("other.votes.16", None),
    ],
)
def test_only_exact_names_are_topics_of_the_log(name: str, first: int | None) -> None:
    assert VotesLog("tally", 16).first_in(name) == first


def test_a_topic_that_is_not_known_yet_is_waited_for() -> None:
    with pytest.raises(ViewsUnavailable) as raised:
        VotesLog("tally", 4).topic_from(4)
    assert raised.value.retry_after_s is not None
    with pytest.raises(KeyError):
        VotesLog("tally", 4).place("tally.votes", 4)
