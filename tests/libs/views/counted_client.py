"""A client of the real Valkey that counts the calls of functions."""

from __future__ import annotations

from typing import Any

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import ValkeyClient
from tests.support.clients.intercepted_valkey import CountedValkey, plain_name


class CountedClient(CountedValkey):
    """Counts also the partitions that calls read; functions in `away` fail."""

    def __init__(self, valkey: ValkeyClient) -> None:
        super().__init__(valkey)
        self.read: list[int] = []
        self.away: set[str] = set()

    async def call(self, *command: Any) -> Any:
        function = plain_name(command[1])
        if function in self.away:
            self.calls[function] += 1
            raise ViewsUnavailable("away")
        if function in ("votes_positions", "votes_doubts"):
            self.read.append(len(command) - 3)
        return await super().call(*command)
