"""The demo's contest: created through the HTTP API, and checked against the log at the end."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx

from libs.audit.comparison import compare
from libs.audit.log_fold import LogFold
from libs.audit.report import counted_casts
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from libs.tally.events import VoteCast
from services.cli.commands.demo.voters import AcceptedResults

TITLE: Final = "Song of the Year"
PARTICIPANTS: Final = (
    "Aurora Vale",
    "The Copper Lanterns",
    "Nine Rivers",
    "Marlow & Finch",
    "Paper Satellites",
    "Juno Okafor",
    "Velvet Harbour",
    "The Night Ferry",
)
FREE: Final = {"max_participant": 3, "max_contest": 10}
PER_ADDRESS: Final = 10


class DemoFailed(TallyError):
    """The service did not create the demo's contest."""

    code = "demo_failed"


@dataclass(frozen=True, slots=True)
class Sample:
    """A running contest: its key, and its participants' titles by key."""

    key: str
    titles: dict[str, str]


async def create_sample(client: httpx.AsyncClient, renewal: dict[str, int] | None = None) -> Sample:
    """Create the contest and its participants, with this renewal of free votes. Raises `DemoFailed`."""
    now = datetime.now(UTC)
    start, end = (f"{now + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S.%fZ}" for minutes in (-1, 30 * 24 * 60))
    config = {
        "start": start,
        "end": end,
        "free": FREE,
        "is_anonymous_voting_enabled": True,
        "ip_restriction_per_participant": PER_ADDRESS,
        "renew_free_vote": renewal,
    }
    contest = await _post(client, "/contests", {"title": TITLE, "publish": start, "contest_config": config})
    path = f"/contests/{contest}/participants"
    return Sample(contest, {await _post(client, path, {"title": title}): title for title in PARTICIPANTS})


async def _post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> str:
    """Create a record and return its key."""
    try:
        answer = await client.post(path, json=body)
    except httpx.HTTPError as error:
        raise DemoFailed(f"POST {path} was not answered: {error}", retry_after_s=1) from error
    if answer.status_code != httpx.codes.CREATED:
        raise DemoFailed(f"POST {path} was answered {answer.status_code}: {answer.text[:300]}")
    return str(answer.json()["key"])


async def check_counts(
    deployment: Deployment,
    sample: Sample,
    results: AcceptedResults,
    ids: set[str],
    counts: dict[str, Any] | None,
    *,
    folded: bool,
) -> dict[str, Any]:
    """Return the differences between views, log and responses.

    `ids` are all ids of the simulated votes, `counts` is the final vote count record. `verify` compares views and
    log; the rest compares the log with the responses to voters, by vote id. `vote_ids_of_others` were not sent by
    the simulated voters; `votes_shown` is the count returned by the API.
    """
    casts: list[VoteCast] = []

    def collect(fold: LogFold) -> None:
        casts.extend(counted_casts(fold, sample.key))

    report = await compare(deployment, sample.key, inspect=collect)
    counted, accepted = {cast.vote_id for cast in casts} & ids, set(results.accepted)
    others = [cast for cast in casts if cast.vote_id not in ids]
    wrong = {
        "accepted_but_not_counted": sorted(accepted - counted),
        "counted_but_refused": sorted(counted - accepted - set(results.in_doubt)),
        "miscounted": list(_miscounted(others, counted, results, counts)),
    }
    return {
        "equal": report.equal and folded and not any(wrong.values()),
        "processed_to_the_end": folded,
        "vote_ids_accepted": len(accepted),
        "vote_ids_in_doubt": len(results.in_doubt),
        **wrong,
        "vote_ids_of_others": len(others),
        "votes_by_the_log": sum(cast.choices[0][1] for cast in casts),
        "votes_shown": None if counts is None else int(counts["count"]),
        "verify": report,
    }


def _miscounted(
    others: list[VoteCast], counted: set[str], results: AcceptedResults, counts: dict[str, Any] | None
) -> Iterator[str]:
    """Yield the participants and sources whose API counts differ from the accepted and others' votes."""
    if counts is None:
        yield "the counts could not be read"
        return
    expected: Counter[tuple[str, str]] = Counter()
    for vote in (
        *results.accepted.values(),
        *(results.in_doubt[key] for key in results.in_doubt.keys() & counted),
    ):
        expected[vote.participant, vote.source] += vote.count
    for cast in others:
        expected[cast.choices[0][0], cast.source] += cast.choices[0][1]
    shown: Counter[tuple[str, str]] = Counter()
    for participant, row in counts["participants"].items():
        for source in row["vote_sources"]:
            shown[participant, source["source"]] += source["count"]
    for key in sorted(expected.keys() | shown.keys()):
        if expected[key] != shown[key]:
            yield f"{' '.join(key)}: expected {expected[key]}, API {shown[key]}"
