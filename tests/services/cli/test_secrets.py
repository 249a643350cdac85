"""`tally secrets`: when a new secret begins to sign."""

import time
from types import SimpleNamespace
from typing import Any

from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.hash_tags import key_base
from libs.views.votes.vote_views import VoteViews
from services.cli.commands.secrets import Purpose, _latest


async def test_a_secret_of_receipts_signs_after_all_votes_that_are_stamped(
    valkey_address: str, namespace: str
) -> None:
    """Also after those with times of a clock that was ahead: their receipts were given, and stay the same."""
    ahead = time.time_ns() // 1000 + 300_000_000
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    views = VoteViews(valkey, namespace, 2)
    deployment: Any = SimpleNamespace(vote_views=views, votes=SimpleNamespace(numbers=(0, 1)))
    assert abs(await _latest(deployment, Purpose.RECEIPTS) - time.time_ns() // 1000) < 200_000_000
    await valkey.call("HSET", f"{key_base(namespace, 'votes', 1, 2)}:gate", "clock", str(ahead))
    assert await _latest(deployment, Purpose.RECEIPTS) == ahead
    assert await _latest(deployment, Purpose.SESSIONS) < ahead
    await valkey.close()
