"""The status of one vote: certain, or 503."""

from dataclasses import replace

import pytest

from libs.contracts.position_token import PositionTokens
from libs.tally.errors import LedgerCatchingUp, NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from services.ingestion.voter_pseudonyms import voter_pseudonym
from services.ingestion.voter_reads import VoterReads
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, log, partition, service_of, valkey
from tests.support.builders import a_contest, a_vote
from tests.support.positions import HeldSecrets

__all__ = ["log", "partition", "valkey"]


@pytest.fixture
def reads(partition: Partition, valkey: Counted, namespace: str, log: Log) -> VoterReads:
    async def read(partition: int, offset: int) -> None:
        return None

    tokens = PositionTokens(HeldSecrets(b"s" * 32))
    service = service_of(partition, valkey, namespace, log, a_contest(), read)
    return VoterReads(partition.views, service, CatalogueViews(valkey, namespace), read, tokens)


async def test_a_vote_that_may_never_be_recorded_is_not_said_to_be(
    reads: VoterReads, partition: Partition
) -> None:
    """A client that was told so would not send it again, and a fence would then end it."""
    vote = replace(a_vote(), voter=voter_pseudonym(b"secret", "anna", None))
    await partition.grant(vote)
    with pytest.raises(LedgerCatchingUp) as undecided:
        await reads.status("account", "contest", vote.vote_id, "anna", None)
    assert undecided.value.retry_after_s == 1

    await partition.fence()
    with pytest.raises(NotFound):
        await reads.status("account", "contest", vote.vote_id, "anna", None)
