"""Random streams: each fault and choice draws from its own, so that a new one leaves all others as they were."""

from random import Random
from zlib import crc32


class Streams:
    """Random numbers by name, derived from a schedule's seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def __getitem__(self, name: str) -> Random:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Random(self.seed << 32 | crc32(name.encode()))
        return stream
