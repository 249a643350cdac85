"""What counts as showing more of a contest's counts."""

from typing import Any

import pytest

from libs.catalogue.contests.visibility import opens_sooner, shows_more

pytestmark = pytest.mark.pure
EARLY, LATE = "2030-01-01T00:00:00.000000Z", "2031-01-01T00:00:00.000000Z"
ORDER = ["hidden", "hidden_until_end", "hidden_until_vote", "shown"]


def contest(**config: Any) -> dict[str, Any]:
    return {"contest_config": config}


def test_each_visibility_shows_more_than_those_before_it() -> None:
    for at, before in enumerate(ORDER):
        for to, after in enumerate(ORDER):
            changed = contest(vote_visibility=before), contest(vote_visibility=after)
            assert shows_more(*changed) is (to > at), changed


@pytest.mark.parametrize("empty", [{}, {"contest_config": None}, contest()])
def test_a_member_that_is_left_out_shows_what_its_default_shows(empty: dict[str, Any]) -> None:
    assert shows_more(contest(vote_visibility="hidden"), empty)
    assert shows_more(contest(result_release="by_hand"), empty)
    assert not shows_more(empty, contest(vote_visibility="shown", result_release="at_end"))
    assert not shows_more(empty, contest(vote_visibility="hidden", result_release="by_hand"))


def test_a_stricter_member_does_not_make_up_for_a_looser_one() -> None:
    before = contest(vote_visibility="shown", result_release="by_hand")
    assert shows_more(before, contest(vote_visibility="hidden", result_release="at_end"))


@pytest.mark.parametrize(
    ("before", "after", "sooner"),
    [
        ({"end": LATE}, {"end": EARLY}, True),
        ({}, {"end": LATE}, True),
        ({"end": EARLY}, {"end": LATE}, False),
        ({"end": EARLY}, {"end": EARLY}, False),
        ({"end": EARLY}, {}, False),
    ],
)
def test_counts_that_are_hidden_until_the_end_open_sooner_with_it(
    before: dict[str, str], after: dict[str, str], sooner: bool
) -> None:
    for visibility in ORDER:
        opened = opens_sooner(
            contest(vote_visibility=visibility, **before), contest(vote_visibility=visibility, **after)
        )
        assert opened is (sooner and visibility.startswith("hidden_until")), visibility
    by_hand = {"vote_visibility": "hidden_until_end", "result_release": "by_hand"}
    assert not opens_sooner(contest(**by_hand, **before), contest(**by_hand, **after))
