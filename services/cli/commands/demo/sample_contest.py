"""Creates the demo's contest through the HTTP API."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx

from libs.tally.errors import TallyError

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
FREE_PER_PARTICIPANT: Final = 3
FREE_IN_CONTEST: Final = 10
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
    contest = await _post(
        client,
        "/contests",
        {
            "title": TITLE,
            "publish": _text(now - timedelta(minutes=1)),
            "contest_config": {
                "start": _text(now - timedelta(minutes=1)),
                "end": _text(now + timedelta(days=30)),
                "free": {"max_participant": FREE_PER_PARTICIPANT, "max_contest": FREE_IN_CONTEST},
                "is_anonymous_voting_enabled": True,
                "ip_restriction_per_participant": PER_ADDRESS,
                "renew_free_vote": renewal,
            },
        },
    )
    titles: dict[str, str] = {}
    for title in PARTICIPANTS:
        participant = await _post(client, f"/contests/{contest['key']}/participants", {"title": title})
        titles[participant["key"]] = title
    return Sample(contest["key"], titles)


async def _post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await client.post(path, json=body)
    except httpx.HTTPError as error:
        raise DemoFailed(f"POST {path} was not answered: {error}", retry_after_s=1) from error
    if answer.status_code != httpx.codes.CREATED:
        raise DemoFailed(f"POST {path} was answered {answer.status_code}: {answer.text[:300]}")
    created: dict[str, Any] = answer.json()
    return created


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
