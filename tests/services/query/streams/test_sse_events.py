"""The bytes of streams, as clients read them that dispatch at every empty line, such as httpx-sse."""

from services.query.streams import sse_events


def test_the_reconnection_time_and_pings_are_no_events_of_their_own() -> None:
    counts = sse_events.counts("counts", "v1", b'{"count":1}')
    sent = sse_events.RETRY + counts + sse_events.PING + sse_events.PING + sse_events.stale(0) + sse_events.PING
    *events, rest = sent.split(b"\n\n")
    assert [event.count(b"\ndata: ") for event in events] == [1, 1]
    assert rest == sse_events.PING
