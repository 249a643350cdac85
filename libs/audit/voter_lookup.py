"""Finds a voter in the log by the voter's own id."""

from typing import NamedTuple

from libs.contracts.pseudonyms import pseudonym
from libs.deployment.deployment import Deployment
from libs.storage.secrets import find_contest_secret


class Voter(NamedTuple):
    """A voter's pseudonym in one contest's log, and the partitions that may hold the voter's votes.

    Those are one of each topic, since a deleted contest's topic is not known.
    """

    pseudonym: str
    partitions: list[int]


async def find_voter(
    deployment: Deployment, contest: str, voter_id: str | None, anonymous_id: str | None
) -> Voter | None:
    """Return the voter, given exactly one id; None if the contest has no secret. Raises `StorageUnavailable`."""
    secret = await find_contest_secret(deployment.store, contest)
    if secret is None:
        return None
    named = voter_id is not None
    name = pseudonym(secret, "voter" if named else "anonymous", (voter_id if named else anonymous_id) or "")
    return Voter(name, [topic.partition_of(name) for topic in deployment.votes.topics])
