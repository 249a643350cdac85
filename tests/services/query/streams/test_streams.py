"""What a stream says, and when."""

from __future__ import annotations

from tests.services.query.streams.listening import COUNTS, Service
from tests.services.query.world import World, contest


async def song(world: World, participants: str = "ab", **config: object) -> str:
    """A running contest with approved participants; a key that may do everything."""
    await world.production.create("contests", "song", contest(**config))
    for participant in participants:
        await world.production.enter("song", participant)
    return await world.production.key()


async def test_a_stream_begins_with_phase_and_counts_and_goes_on_with_votes(service: Service) -> None:
    world = service.world
    key = await song(world)
    plain = await world.get(f"{COUNTS}?sources=true", key)
    async with service.listen(f"{COUNTS}/stream?sources=true", key) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert (await stream.next("retry")).name == "retry"
        phase = (await stream.next()).data
        assert (phase["phase"], phase["final"], phase["hidden"]) == ("running", False, False)
        counts = await stream.next()
        assert (counts.name, counts.text.encode(), counts.id) == (
            "counts",
            plain.content,
            plain.headers["etag"].strip('"'),
        )
        for number in range(1, 4):
            await world.vote("a", voter=f"v{number}")
            assert (await stream.next()).data["count"] == number
