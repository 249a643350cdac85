"""Tasks by key: repeated work of several subjects, of which a slow one delays no other."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyedTasks(Generic[K]):
    """Runs `work` for keys, at most once at a time for each. `work` handles its errors."""

    def __init__(self, work: Callable[[K], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def start(self, key: K) -> None:
        """Start the work for `key`, unless it still runs."""
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(self._work(key))
            task.add_done_callback(lambda _: self._tasks.pop(key))

    async def cancel(self) -> None:
        """Cancel the running tasks, and wait for their end."""
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
