"""What `tally certificate show` says of a certificate."""

import pytest

from libs.tally.events import LogLost
from services.cli.commands.certificate import certificate_text
from tests.libs.certificates.in_memory_log import MARK, recorded
from tests.support.builders.contests import NOW, a_cast


@pytest.mark.parametrize(("lost", "said"), [(0, []), (2, ["The log lost 2 accepted votes of the contest"])])
async def test_lost_votes_are_said_if_there_are_any(lost: int, said: list[str]) -> None:
    loss = LogLost(1, 4, NOW, votes=(("contest", lost), ("another", 5)))
    certificate = await recorded([loss, a_cast("a", voter="ann"), MARK]).certify()
    lines = [line for line in certificate_text(certificate, []) if isinstance(line, str) and "lost" in line]
    assert [line.partition(":")[0] for line in lines] == said
