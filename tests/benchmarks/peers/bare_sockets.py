"""The ceiling of a stream: sockets that are written to, and nothing else. Arguments: port, the record."""

import asyncio
import sys
from typing import Any

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(template: str, count: int) -> bytes:
    record = template.replace('"count":0,', f'"count":{count},', 1)
    event = f"event: counts\ndata: {record}\nid: {count}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


async def main(port: int, template: str) -> None:
    listening: set[asyncio.WriteTransport] = set()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if data.startswith(b"GET"):
                self.transport.write(HEAD + chunk(template, 0))
                listening.add(self.transport)
            elif data.startswith(b"POST"):
                said = chunk(template, int(data.split(b"count=")[1].split()[0]))
                self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                for transport in listening:
                    transport.write(said)

        def connection_lost(self, error: Exception | None) -> None:
            listening.discard(self.transport)

    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
