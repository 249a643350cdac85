"""Evidence that a fault happened: without it, a campaign shows nothing about the fault."""

from collections.abc import Awaitable, Callable, Sequence

from tests.campaign.stage import Stage

Choose = Callable[[Stage], Awaitable[Sequence[str]]]
"""Returns the names of the processes that a fault hits, by what they do now."""


class DidNotBite(Exception):
    """A fault did not happen: its campaign shows nothing about it."""


def expect(happened: bool, text: str) -> None:
    if not happened:
        raise DidNotBite(text)
