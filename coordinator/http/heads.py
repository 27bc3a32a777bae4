"""The heads of requests and answers: how much of a head is read, and which headers every answer has.

A head is kept until it is whole, within bounds, and only then parsed: what it costs is known before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import h11

from coordinator.http.exchange import HttpProblem

HEAD_BYTES: Final = 128 << 10
"""Longest head. A group id may have 32,767 bytes, and takes three times as many where each is percent-encoded."""

HEAD_LINES: Final = 100
"""Most lines of a head: parsing takes some 5 us for each."""

BODY_BYTES: Final = 8 << 10
"""Longest body of a request: none means anything here, and it is read to be thrown away."""

_ENDS: Final = (b"\r\n\r\n", b"\n\n", b"\n\r\n")
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class HeadBuffer:
    """What was received and is not used yet; `take_head` finds the end of a head and looks at no byte twice."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._looked_at = 0

    def __len__(self) -> int:
        return len(self._data)

    def add(self, data: bytes) -> None:
        self._data += data

    def take_head(self) -> bytes | None:
        """Remove and return a whole head; None as long as there is none. Raises HttpProblem beyond the bounds."""
        self._drop_blank_lines()
        end = self._end_of_head()
        if end is None:
            self._looked_at = max(len(self._data) - 3, 0)
            if len(self._data) > HEAD_BYTES:
                raise HttpProblem(431, f"The request's head has more than {HEAD_BYTES} bytes.")
            return None
        if end > HEAD_BYTES:
            raise HttpProblem(431, f"The request's head has more than {HEAD_BYTES} bytes.")
        head = self.take(end)
        if head.count(b"\n") > HEAD_LINES:
            raise HttpProblem(431, f"The request's head has more than {HEAD_LINES} lines.")
        return head

    def take(self, size: int) -> bytes:
        """Remove and return the first `size` bytes."""
        taken = bytes(self._data[:size])
        del self._data[:size]
        self._looked_at = 0
        return taken

    def _drop_blank_lines(self) -> None:
        """A client may send an empty line before a request, as after a body (RFC 9112, 2.2)."""
        while self._data.startswith((b"\r\n", b"\n")):
            del self._data[: 2 if self._data.startswith(b"\r\n") else 1]
            self._looked_at = 0

    def _end_of_head(self) -> int | None:
        found = [at + len(end) for end in _ENDS if (at := self._data.find(end, self._looked_at)) >= 0]
        return min(found, default=None)


def body_length(request: h11.Request) -> int:
    """Return how many bytes of a body follow. Raises HttpProblem for a body that is not taken."""
    headers = dict(request.headers)
    if b"transfer-encoding" in headers:
        raise HttpProblem(411, "A body whose length is not said is not taken.")
    length = int(headers.get(b"content-length", b"0"))
    if length > BODY_BYTES:
        raise HttpProblem(
            413, f"A body of more than {BODY_BYTES} bytes is not taken; none means anything here."
        )
    return length


def response(
    status: int, media_type: str, length: int | None, more: Mapping[str, str] | None = None
) -> h11.Response:
    """Return the head of an answer; without a `length`, its body comes in parts."""
    headers = [
        ("Date", http_date(time.time())),
        ("Content-Type", media_type),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *(more or {}).items(),
    ]
    if length is not None:
        headers.append(("Content-Length", str(length)))
    return h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())


def stream_head(media_type: str) -> bytes:
    """Return the head of a stream. Its body ends with the connection: so its bytes are the same for all."""
    lines = [
        "HTTP/1.1 200 OK",
        f"Date: {http_date(time.time())}",
        f"Content-Type: {media_type}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def http_date(seconds: float) -> str:
    """Return a time as HTTP writes it, whatever the locale."""
    at = time.gmtime(seconds)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year}"
    return f"{day} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
