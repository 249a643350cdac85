"""The process that decodes and encodes pictures: `python -m libs.media.decoder`, started by `decoder_pool`.

Untrusted bytes are decoded here in isolation: no secrets in the environment, no network connection, limits on CPU
time and memory, and a parent that kills it at a deadline. It reads requests from standard input, one at a time,
responds on standard output, and exits with its parent, which closes standard input.
"""

import io
import math
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any, Final

import msgpack

from libs.media.picture_encoding import TOO_LARGE, NotAPicture, shrunk, take_in

LENGTH: Final = struct.Struct(">Q")
"""Length prefix: the size of the message after it, in bytes."""
BASE_BYTES: Final = 256 << 20
BYTES_PER_PIXEL: Final = 40
"""Decoding and encoding a picture of 40 million pixels took up to 23 bytes per pixel (WebP)."""


def frame(message: Mapping[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(message)
    return LENGTH.pack(len(packed)) + packed


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends this process
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keeps libraries' output out of the responses
    while (length := requests.read(LENGTH.size)) and len(length) == LENGTH.size:
        request = msgpack.unpackb(requests.read(LENGTH.unpack(length)[0]))
        _limit(request["cpu_s"], request["max_pixels"])
        answers.write(frame(_answer(request)))
        answers.flush()


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    file: IO[bytes] = io.BytesIO(request["data"])
    try:
        if request["longest"]:
            return {"data": shrunk(request["data"], request["format"], request["longest"])}
        return asdict(take_in(file, request["max_pixels"], request["formats"]))
    except NotAPicture as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": TOO_LARGE}


def _limit(cpu_s: float, max_pixels: int) -> None:
    """Limit the next picture's CPU time, at which the kernel kills the process, and memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = math.ceil(used.ru_utime + used.ru_stime + cpu_s)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_AS, BASE_BYTES + BYTES_PER_PIXEL * max_pixels),
    ):
        with suppress(ValueError, OSError):  # macOS does not implement all of them
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))


if __name__ == "__main__":
    main()
