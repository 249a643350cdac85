"""Opens clients of a Valkey that has this version's functions, and repeats their calls until they are executed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from libs.tally.errors import ViewsUnavailable
from libs.telemetry.redaction import SecretUrl
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.connection import NotExecuted
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.support.eventually import DEADLINE_S, eventually

T = TypeVar("T")


@asynccontextmanager
async def loaded_valkey(address: str | SecretUrl) -> AsyncIterator[ValkeyClient]:
    client = open_valkey(address)
    try:
        await load_functions(client)
        yield client
    finally:
        await client.close()


async def once_executed(
    call: Callable[[], Awaitable[T]], error: type[ViewsUnavailable] = NotExecuted, deadline_s: float = DEADLINE_S
) -> T:
    """Repeat a call while it fails with this error; return its answer."""
    answers: list[T] = []

    async def is_executed() -> bool:
        with suppress(error):
            answers.append(await call())
        return bool(answers)

    await eventually(is_executed, deadline_s=deadline_s)
    return answers[0]
