"""Sends a request until its answer is final, as a client of the API does."""

from collections.abc import Awaitable, Callable

import httpx

from tests.support.eventually import DEADLINE_S, eventually


async def final_answer(
    send: Callable[[], Awaitable[httpx.Response]],
    not_yet: Callable[[httpx.Response], None] | None = None,
    *,
    deadline_s: float = DEADLINE_S,
    every_s: float = 0.3,
) -> httpx.Response:
    """Call `send` again after each 503 and each lost connection, and return its first other answer.

    `not_yet` is called with each 503. `send` must send the same ids each time.
    """

    async def sent() -> httpx.Response:
        try:
            answer = await send()
        except httpx.TransportError as error:
            raise AssertionError(repr(error)) from error
        if answer.status_code == 503 and not_yet is not None:
            not_yet(answer)
        assert answer.status_code != 503, answer.text
        return answer

    return await eventually(sent, deadline_s, every_s)
