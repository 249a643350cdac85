"""Commands that must succeed: what a busy machine may refuse runs again, and what is wrong is found."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.campaign import commands
from tests.campaign.clients import Crowd
from tests.campaign.commands import Commands
from tests.campaign.oracle import Oracle

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("exit_codes", "heals", "is_untrue"),
    [
        ([0], False, False),
        ([1], False, True),
        ([3, 0], False, False),
        ([3, 1], False, True),
        ([1, 3, 0], True, False),
    ],
)
async def test_a_command_that_must_succeed(
    monkeypatch: pytest.MonkeyPatch, exit_codes: Sequence[int], heals: bool, is_untrue: bool
) -> None:
    monkeypatch.setattr(commands, "AGAIN_S", 0.001)
    ends = iter(exit_codes)

    class Scripted(Commands):
        async def run(self, *command: str) -> tuple[Any, int]:
            return "printed", next(ends)

    crowd = cast(Crowd, SimpleNamespace(oracle=Oracle()))
    await Scripted(crowd, Path(), Random(1)).must("verify", heals=heals)
    assert bool(crowd.oracle.wrong) is is_untrue
    assert not list(ends)
