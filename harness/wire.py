"""A blocking client on a plain socket with our codec. It retries nothing and hides nothing."""

from __future__ import annotations

import socket
from struct import Struct
from types import TracebackType
from typing import Any

from protocol.codec.codec import spec
from protocol.framing import decode_response, encode_request
from protocol.messages import RESPONSES

SIZE = Struct(">i")
TIMEOUT_S = 30.0


class WireClient:
    """One connection. `ask` sends a request and returns its decoded response; `send` and `receive` are halves."""

    def __init__(self, bootstrap: str, client_id: str | None = "wire") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0
        self._asked: list[tuple[int, int, int]] = []  # (correlation id, API key, version), oldest first.

    def send(self, request: Any, version: int) -> None:
        """Send `request`; a later `receive` returns the response."""
        self._correlation_id += 1
        self.socket.sendall(encode_request(request, version, self._correlation_id, self.client_id))
        key = spec(type(request)).api_key
        assert key is not None
        self._asked.append((self._correlation_id, key, version))

    def receive(self) -> Any:
        """Return the response to the oldest unanswered request. Raises ConnectionError if the server closed."""
        frame = self.receive_frame()
        correlation_id, key, version = self._asked.pop(0)
        answered_id, answer = decode_response(RESPONSES[key], version, frame)
        assert answered_id == correlation_id, "answers come in the order of the requests"
        return answer

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def receive_frame(self) -> bytes:
        return self._receive(SIZE.unpack(self._receive(4))[0])

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
