"""The address limit over HTTP: per participant, by sum of counts, unaffected by votes that do not count."""

import pytest

from tests.support.voting import Api, code, running

ADDRESS = "198.51.100.20"


async def test_a_rating_that_replaces_takes_nothing_more_from_the_address(api: Api) -> None:
    contest = await api.contest(body=running(ip_restriction_per_participant=2) | {"contest_type": "rating"})
    for value in range(5):
        assert (await contest.rate(0, value, "anna", ip=ADDRESS)).status_code == 201
    last = await contest.rate(0, 1, "bert", ip=ADDRESS)
    assert last.status_code == 201
    assert code(await contest.rate(0, 1, "cleo", ip=ADDRESS)) == (409, "ip_limit_reached")
    assert (await contest.remove(last, "bert")).status_code == 204
    assert (await contest.rate(0, 1, "cleo", ip=ADDRESS)).status_code == 201


@pytest.mark.secured
async def test_a_ballot_is_one_vote_for_each_of_its_participants_or_for_none(api: Api) -> None:
    positions = {"positions": [{"id": "1", "votes": 12}, {"id": "2", "votes": 10}]}
    body = running(ip_restriction_per_participant=1, ordering=positions) | {"contest_type": "ordering"}
    contest = await api.contest(4, body)
    assert (await contest.ballot(0, 1, voter="anna", ip=ADDRESS)).status_code == 201
    refused = await contest.ballot(2, 0, voter="bert", ip=ADDRESS)
    assert (code(refused), refused.json()["used"]) == ((409, "ip_limit_reached"), 1)
    assert (await contest.ballot(3, 2, voter="bert", ip=ADDRESS)).status_code == 201
    assert (await contest.ballot(1, 0, voter="anna", ip=ADDRESS)).status_code == 201


@pytest.mark.secured
async def test_a_contest_without_an_end_has_an_address_limit_too(api: Api) -> None:
    contest = await api.contest(ip_restriction_per_participant=1, end=None)
    assert (await contest.vote(0, "anna", ip=ADDRESS)).status_code == 201
    assert code(await contest.vote(0, "bert", ip=ADDRESS)) == (409, "ip_limit_reached")
