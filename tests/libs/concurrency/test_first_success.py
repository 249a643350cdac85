"""First success: one call that succeeds is enough, whatever the others do."""

import asyncio

import pytest

from libs.concurrency.tasks import first_success


async def hang() -> int:
    await asyncio.Event().wait()
    return 0


async def fail() -> int:
    raise ValueError("failed")


async def succeed() -> int:
    await asyncio.sleep(0)
    return 7


async def test_calls_that_hang_or_fail_do_not_matter_beside_one_that_succeeds() -> None:
    assert await first_success([hang(), fail(), succeed(), hang()]) == 7
    assert not [task for task in asyncio.all_tasks() if "object hang " in repr(task.get_coro())]


async def test_the_error_is_that_of_a_call_if_all_fail() -> None:
    with pytest.raises(ValueError, match="failed"):
        await first_success([fail(), fail()])
