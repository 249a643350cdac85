"""The server's view of `Tally-Position`: what its encrypted tokens hold."""

from collections.abc import Mapping

from libs.contracts.position_token import PositionTokens
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing


class HeldSecrets:
    """A ring in memory; `newer` ones are known after a read again."""

    is_loaded = True

    def __init__(self, *known: bytes, newer: tuple[bytes, ...] = ()) -> None:
        self.known, self.newer = known, newer

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        if again and self.newer:
            self.known, self.newer = self.newer, ()
        return self.known


async def position_tokens(storage_url: str) -> PositionTokens:
    """Return the tokens of the deployment with this object store."""
    tokens = PositionTokens(SecretRing(open_store(storage_url), "positions"))
    await tokens.load()
    return tokens


async def decoded(storage_url: str, token: str) -> Mapping[int, int]:
    return await (await position_tokens(storage_url)).decode(token)
