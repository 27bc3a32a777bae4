"""The kernel's figures of a TCP listener's accept queue: its bound, and the connections dropped when it was full.

TcpExtListenOverflows in /proc/net/netstat counts for the whole machine, other programs included. `sock_diag(7)`
has the same figure for each socket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Final

NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
REQUEST_ALL: Final = 0x301  # NLM_F_REQUEST and NLM_F_DUMP.
DONE, ERROR = 3, 2
LISTENING: Final = 1 << 10  # TCP_LISTEN alone, in sock_diag's set of TCP states as bits.
SKMEMINFO: Final = 7
DROPS: Final = 8  # Index of the count of drops in the attribute SKMEMINFO, a list of numbers.
WAITING_MAX_AT: Final = 60  # Offset of idiag_wqueue in inet_diag_msg: a listening socket's bound.
ANSWER_BYTES: Final = 72  # Size of inet_diag_msg; its attributes follow.
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def dropped_connections(port: int) -> int:
    """Number of connections dropped, since the listener on this port was opened, because its queue was full."""
    for family in (socket.AF_INET, socket.AF_INET6):  # A listener of Java's for both is an IPv6 socket.
        if (found := _drops_of(family, port)) is not None:
            return found
    raise LookupError(f"nothing listens on port {port}")


def longest_queue_of(port: int) -> int:
    """The most connections that may wait to be accepted by the listener on this port, as the kernel has it."""
    found = _listener_figure(
        socket.AF_INET, port, lambda body: int(struct.unpack_from("=I", body, WAITING_MAX_AT)[0])
    )
    if found is None:
        raise LookupError(f"nothing listens on port {port}")
    return found


def _drops_of(family: socket.AddressFamily, port: int) -> int | None:
    return _listener_figure(family, port, lambda body: _attribute(body, SKMEMINFO)[DROPS])


def _listener_figure(family: socket.AddressFamily, port: int, take: Callable[[bytes], int]) -> int | None:
    wanted = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 1 << (SKMEMINFO - 1), 0, LISTENING)
    wanted += bytes(48)  # The socket's identity; zeros ask for all sockets.
    found = None
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.send(_HEADER.pack(16 + len(wanted), SOCK_DIAG_BY_FAMILY, REQUEST_ALL, 1, 0) + wanted)
        while (data := link.recv(1 << 20)) and not _is_last(data):
            found = _find_figure(data, port, take) if found is None else found
    return found


def _is_last(data: bytes) -> bool:
    kind = _HEADER.unpack_from(data)[1]
    if kind == ERROR:
        number = -struct.unpack_from("=i", data, 16)[0]
        raise OSError(number, "sock_diag refused the question")
    return bool(kind == DONE)


def _find_figure(data: bytes, port: int, take: Callable[[bytes], int]) -> int | None:
    position = 0
    while position < len(data):
        size, kind, *_ = _HEADER.unpack_from(data, position)
        body = data[position + 16 : position + size]
        if kind != DONE and struct.unpack_from(">H", body, 4)[0] == port:
            return take(body)
        position += (size + 3) & ~3
    return None


def _attribute(body: bytes, wanted: int) -> tuple[int, ...]:
    position = ANSWER_BYTES
    while position < len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, position)
        if kind == wanted:
            return struct.unpack_from(f"={(size - 4) // 4}I", body, position + 4)
        position += (size + 3) & ~3
    raise LookupError(f"attribute {wanted} is not in the answer")
