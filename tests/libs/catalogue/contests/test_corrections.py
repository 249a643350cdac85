"""Titles and order as of a contest's end: what is changed later is a correction beside the result."""

from collections.abc import Iterable
from dataclasses import replace

import orjson
import pytest

from libs.catalogue.contests.closing_record import closed, title_of
from libs.catalogue.contests.corrections import Correction, as_closed, corrections, in_running_order
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import Contest

AB = {"a": "Ann", "b": ""}


def stored(key: str, updated: int, **document: object) -> Stored:
    return Stored(key, 1, 1, updated, 1, "contest", orjson.dumps(document).decode())


def a_closed(titles: dict[str, str]) -> ContestRecords:
    """A contest of Ann and of one without a title, as it is after its end."""
    contest = Contest("contest", "account", 1, participants=dict.fromkeys(AB, "approved"))
    document = closed({"title": "Final"}, contest, titles, {}, 1)
    participants = (stored("a", 1, title="Ann"), stored("b", 1))
    return ContestRecords(version=1, contest=stored("contest", 1, **document), participants=participants)


def renamed(config: ContestRecords) -> ContestRecords:
    assert config.contest is not None
    contest = stored("contest", 5, **config.contest.document | {"title": "Over"})
    return replace(
        config, contest=contest, participants=(stored("a", 7, title="Bob"), stored("b", 8, title="Ann"))
    )


def test_results_keep_the_titles_of_the_end() -> None:
    config = a_closed(AB)
    assert (corrections(config), as_closed(config)) == ([], config)
    shown = as_closed(renamed(config))
    assert shown.contest is not None
    assert [title_of(each) for each in (shown.contest, *shown.participants)] == ["Final", "Ann", ""]
    assert corrections(renamed(config)) == [
        Correction(None, "title", "Final", "Over", 5),
        Correction("a", "title", "Ann", "Bob", 7),
        Correction("b", "title", "", "Ann", 8),
    ]


@pytest.mark.parametrize("is_closed", [True, False])
def test_titles_that_were_not_recorded_are_the_current_ones(is_closed: bool) -> None:
    config = renamed(a_closed({}))
    if not is_closed:
        config = replace(config, contest=stored("contest", 5, title="Over"))
    assert [each.participant for each in corrections(config)] == ([None] if is_closed else [])
    assert [title_of(each) for each in as_closed(config).participants] == ["Bob", "Ann"]


@pytest.mark.parametrize(("now", "is_correction"), [("rejected", True), ("approved", False)])
def test_a_status_that_was_changed_after_the_end_is_a_correction(now: str, is_correction: bool) -> None:
    judged = {"at": 9, "by": "key 1"}
    config = a_closed(AB)
    config = replace(config, participants=(stored("a", 9, title="Ann", status=now, judged=judged), stored("b", 1)))
    assert corrections(config) == [Correction("a", "status", "approved", now, 9, "key 1")] * is_correction
    assert as_closed(config) == config


def keys(participants: Iterable[Stored]) -> str:
    return "".join(each.key for each in participants)


def ordered(config: ContestRecords, *running_order: str) -> ContestRecords:
    assert config.contest is not None
    document = config.contest.document | {"running_order": running_order, "ordered": {"at": 4, "by": "key 1"}}
    return replace(config, contest=stored("contest", 5, **document))


def test_participants_that_the_running_order_does_not_name_follow_by_number() -> None:
    participants = tuple(replace(stored(key, 1), number=at) for at, key in enumerate("abcd"))
    config = ContestRecords(1, stored("contest", 1), participants)
    assert keys(in_running_order(config)) == keys(as_closed(config).participants) == "abcd"
    config = ordered(config, "d", "gone", "b")
    assert keys(in_running_order(config)) == keys(as_closed(config).participants) == "dbac"


def test_results_keep_the_order_of_the_end() -> None:
    config = ordered(a_closed(AB), "b", "a")
    later = replace(config, participants=(*config.participants, replace(stored("c", 9), number=3)))
    assert keys(in_running_order(later)) == "bac"
    assert keys(as_closed(later).participants) == "abc"
    assert corrections(later) == [Correction(None, "running_order", ["a", "b"], ["b", "a"], 4, "key 1")]
    first, second, third = later.participants
    renamed_later = replace(later, participants=(replace(first, record='{"title":"Bob"}'), second, third))
    assert [title_of(each) for each in as_closed(renamed_later).participants] == ["Ann", "", ""]
    same = ordered(later, "c", "a", "b")
    assert corrections(same) == []
    deleted = replace(config, participants=config.participants[:1])
    assert corrections(deleted) == []
