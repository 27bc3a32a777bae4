"""The floor: the least that a Python process on uvloop can spend on answering these frames.

Knows nothing and checks nothing; it answers every frame with the success that Muster would send.
    python -m bench.floor PORT
"""

from __future__ import annotations

import asyncio
import sys
from struct import Struct
from typing import cast

import uvloop

HEAD = Struct(">ihhi")  # Size, API key, version, correlation id.
HEARTBEAT_BODY = b"\x00" + bytes(4) + bytes(2) + b"\x00"  # v4: tags, throttle time, error, tags.
ANSWER = Struct(f">ii{len(HEARTBEAT_BODY)}s")


class Floor(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.rest = cast(asyncio.Transport, transport), b""

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        position, end, answers = 0, len(data), b""
        while end - position >= 4:
            size, _, _, correlation_id = HEAD.unpack_from(data, position)
            if position + 4 + size > end:
                break
            position += 4 + size
            answers += ANSWER.pack(4 + len(HEARTBEAT_BODY), correlation_id, HEARTBEAT_BODY)
        self.rest = data[position:]
        self.transport.write(answers)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(
        Floor, "127.0.0.1", int(sys.argv[1]), backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
