"""The service's time. Clocks of devices are hours off, so none of them decides anything."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


class ServiceClock:
    """Follows the service's clock; `monotonic` only measures the seconds in between."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._ahead: float | None = None

    def now(self) -> datetime | None:
        """Return the service's time, never ahead of it; None before the first answer."""
        return None if self._ahead is None else datetime.fromtimestamp(self._monotonic() + self._ahead, UTC)

    def set(self, server_time: str) -> None:
        """Take over the `server_time` of an event that was just received."""
        self._ahead = datetime.fromisoformat(server_time).timestamp() - self._monotonic()

    def hear(self, date: str | None, sent: float) -> None:
        """Take over the header `Date` of an answer, in whole seconds, to a request sent at `sent`."""
        try:
            time = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        least, most = time - self._monotonic(), time + 1 - sent
        self._ahead = min(max(least if self._ahead is None else self._ahead, least), most)
