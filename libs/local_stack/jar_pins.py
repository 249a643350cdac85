"""Pinned jars of Kafka: coordinates, sizes and checksums."""

from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).with_name("kafka-4.3.0.sha256")


@dataclass(frozen=True, slots=True)
class Pin:
    """Pinned jar: `coordinate` is Maven's group:artifact:version, `size` is in bytes."""

    sha256: str
    size: int
    coordinate: str


def pins(file: Path = PINS) -> list[Pin]:
    rows = (line.split() for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return [Pin(sha256, int(size), coordinate) for sha256, size, coordinate in rows]
