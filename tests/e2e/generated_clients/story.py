"""One story through the client that openapi-generator makes for Python: `story.py BASE_URL KEY`."""

# mypy: ignore-errors
# The client is generated in the test.

import sys
from datetime import UTC, datetime

from openapi_client import ApiClient, Configuration
from openapi_client.api.contests_api import ContestsApi
from openapi_client.api.participants_api import ParticipantsApi
from openapi_client.api.results_api import ResultsApi
from openapi_client.api.votes_api import VotesApi
from openapi_client.exceptions import ConflictException
from openapi_client.models.contest import Contest
from openapi_client.models.contest_config import ContestConfig
from openapi_client.models.contest_config_patch import ContestConfigPatch
from openapi_client.models.contest_patch import ContestPatch
from openapi_client.models.free import Free
from openapi_client.models.free_patch import FreePatch
from openapi_client.models.participant import Participant
from openapi_client.models.vote_form import VoteForm

LONG_AGO = datetime(2020, 5, 1, tzinfo=UTC)
base_url, key = sys.argv[1:]
with ApiClient(Configuration(host=base_url, access_token=key)) as client:
    contests, votes = ContestsApi(client), VotesApi(client)
    config = ContestConfig(start=LONG_AGO, free=Free(max_contest=7, max_participant=1))
    contest = contests.create_contest(Contest(title="Song of the year", publish=LONG_AGO, contest_config=config))
    made = [
        ParticipantsApi(client).create_participant(contest.key, Participant(title=title))
        for title in ("Ann", "Ben")
    ]
    form = VoteForm(vote_id="vote-1", participant_key=made[0].key, voter_id="voter-1")
    cast = votes.cast_vote_with_http_info(contest.key, form)
    assert cast.data.status == "accepted", cast.data
    position = cast.headers["tally-position"]
    count = ResultsApi(client).get_vote_counts(contest.key, min_position=[position])
    assert {key: each.count for key, each in count.participants.items()} == {made[0].key: 1, made[1].key: 0}
    page = contests.list_contests(limit=1)
    assert len(page.data) == 1, page
    again = VoteForm(vote_id="vote-2", participant_key=made[0].key, voter_id="voter-1")
    try:
        votes.cast_vote(contest.key, again)
    except ConflictException as refused:
        problem = refused.data
        assert (problem.code, problem.limit, problem.used) == ("participant_limit_reached", 1, 1), problem
    else:
        raise AssertionError("a second vote")
    patch = ContestPatch(contest_config=ContestConfigPatch(free=FreePatch(max_participant=5)))
    changed = contests.update_contest(contest.key, patch)
    free = changed.contest_config.free
    assert (changed.title, free.max_contest, free.max_participant) == ("Song of the year", 7, 5), changed
print("told")
