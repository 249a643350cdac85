"""Rejections by a contest's configuration alone, and their order."""

from typing import Any

import pytest

from libs.tally.admission import Selection, judge
from libs.tally.errors import AnonymousVotingDisabled, MobileOnly, NotFound, ParticipantNotVotable
from tests.support.builders import a_contest, a_vote


def test_a_plain_vote_is_not_refused() -> None:
    assert judge(a_contest(), a_vote()) == Selection("plain", (("a", 1),), 1, -1)


def test_the_participant_must_be_known() -> None:
    assert isinstance(judge(a_contest(), a_vote("z")), NotFound)


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_the_participant_must_be_approved(status: str) -> None:
    assert isinstance(judge(a_contest(participants={"a": status}), a_vote()), ParticipantNotVotable)


@pytest.mark.parametrize("source", ["c-free", "c-paid"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("paid", [True, False])
def test_anonymous_votes_are_admitted_by_source(source: str, free: bool, paid: bool) -> None:
    contest = a_contest(is_anonymous_voting_enabled=free, is_paid_anonymous=paid)
    refusal = judge(contest, a_vote(anonymous=True, source=source))
    admitted = paid if source == "c-paid" else free
    assert isinstance(refusal, Selection) == admitted
    assert admitted or isinstance(refusal, AnonymousVotingDisabled)


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_mobile_only_takes_free_votes_of_the_apps(platform: str) -> None:
    assert isinstance(judge(a_contest(is_mobile_only=True), a_vote(platform=platform)), Selection)


@pytest.mark.parametrize("platform", ["web", None])
def test_mobile_only_refuses_other_free_votes_but_no_paid_ones(platform: str | None) -> None:
    contest = a_contest(is_mobile_only=True)
    assert isinstance(judge(contest, a_vote(platform=platform)), MobileOnly)
    assert isinstance(judge(contest, a_vote(platform=platform, source="c-paid")), Selection)


def test_the_participant_comes_before_the_kind_of_voter_and_that_before_the_platform() -> None:
    contest = a_contest(is_mobile_only=True, participants={"a": "approved", "b": "rejected"})
    everything: dict[str, Any] = {"anonymous": True, "platform": "web"}
    assert isinstance(judge(contest, a_vote("z", **everything)), NotFound)
    assert isinstance(judge(contest, a_vote("b", **everything)), ParticipantNotVotable)
    assert isinstance(judge(contest, a_vote("a", **everything)), AnonymousVotingDisabled)
