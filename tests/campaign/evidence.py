"""Evidence that a fault happened: without it, a campaign shows nothing about the fault."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.campaign.stage import Stage

Choose = Callable[["Stage"], Awaitable[Sequence[str]]]
"""Returns the names of the processes that a fault hits, by what they do now."""


async def services(stage: "Stage") -> Sequence[str]:
    return [*stage.kinds["gateway"], *stage.kinds["projector"]]


class DidNotBite(Exception):
    """A fault did not happen: its campaign shows nothing about it."""


def expect(happened: bool, text: str) -> None:
    if not happened:
        raise DidNotBite(text)


@contextmanager
def needed(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors of what a fault needs, as of a server that does not answer, into `DidNotBite`."""
    try:
        yield
    except errors as error:
        raise DidNotBite(repr(error)) from error
