"""The first record of a TLS connection, kept aside until all of it is there.

OpenSSL takes 50 KB for a handshake as soon as it has the first byte, and keeps them while it waits for the next. A
client that says its hello slowly, or half of it, would cost twice as much as one that is done; here it costs what
it has sent.
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 5
RECORD_BYTES_MAX: Final = 1 << 14
"""Of what is not encrypted yet; OpenSSL refuses a longer record."""
_HANDSHAKE: Final = 0x16
_MAJOR_VERSION: Final = 3


def is_whole(received: bytes | bytearray) -> bool:
    """Whether OpenSSL can do something with what was received: a whole record, or what will never be one."""
    if received[0] != _HANDSHAKE:
        return True
    if len(received) < HEADER_BYTES:
        return len(received) > 1 and received[1] != _MAJOR_VERSION
    size = int.from_bytes(received[3:HEADER_BYTES], "big")
    is_record = received[1] == _MAJOR_VERSION and size <= RECORD_BYTES_MAX
    return not is_record or len(received) >= HEADER_BYTES + size
