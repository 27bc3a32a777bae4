"""The floors under Fetch and Produce: what the system itself takes to move bytes between a file and a socket.

Three ways from the page cache to a socket, and the one way from a socket to a file, each with a process at the
other end that does nothing else. CPU is this process's own. The socket's buffers are as the daemon has them.

    python -m bench.sending [--megabytes 400] [--rounds 3]
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

from google_crc32c import value as crc32c

from coordinator.server.outgoing import PIECE_BYTES
from coordinator.settings.model import Settings

MB: Final = 1_000_000
BATCH_BYTES: Final = 1 << 20

Way = Callable[[socket.socket, int, int], None]
"""Moves so many bytes between a socket and the file of that descriptor."""


def by_sendfile(peer: socket.socket, fd: int, size_bytes: int) -> None:
    position = 0
    while position < size_bytes:
        position += os.sendfile(peer.fileno(), fd, position, min(PIECE_BYTES, size_bytes - position))


def by_reading(peer: socket.socket, fd: int, size_bytes: int) -> None:
    """Send as the daemon does: a read that would rather fail than wait, then a write."""
    for position in range(0, size_bytes, PIECE_BYTES):
        piece = bytearray(min(PIECE_BYTES, size_bytes - position))
        os.preadv(fd, [piece], position, os.RWF_NOWAIT)
        peer.sendall(piece)


def by_mapping(peer: socket.socket, fd: int, size_bytes: int) -> None:
    with mmap.mmap(fd, size_bytes, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        for position in range(0, size_bytes, PIECE_BYTES):
            with view[position : position + PIECE_BYTES] as piece:
                peer.sendall(piece)


def receiving(peer: socket.socket, fd: int, size_bytes: int) -> None:
    """Batches into a buffer of their own, their checksum, and into the file: the least Produce can do."""
    for position in range(0, size_bytes, BATCH_BYTES):
        batch = memoryview(bytearray(min(BATCH_BYTES, size_bytes - position)))
        filled = 0
        while filled < len(batch):
            filled += peer.recv_into(batch[filled:])
        crc32c(bytes(batch))
        os.pwritev(fd, [batch], position)


WAYS: Final[dict[str, tuple[Way, bool]]] = {
    "fetch: sendfile": (by_sendfile, True),
    "fetch: read and write, as the daemon does": (by_reading, True),
    "fetch: write from a memory map": (by_mapping, True),
    "produce: receive, checksum, write": (receiving, False),
}


def other_end(peer: socket.socket, size_bytes: int, takes: bool) -> int:
    """A process that takes, or gives, so many bytes; its id."""
    pid = os.fork()
    if pid == 0:
        buffer = memoryview(bytearray(BATCH_BYTES))
        moved = 0
        while moved < size_bytes:
            left = buffer[: min(len(buffer), size_bytes - moved)]
            moved += peer.recv_into(left) if takes else peer.send(left)
        os._exit(0)
    return pid


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection over loopback, buffers as the daemon sets them."""
    settings = Settings()
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes)
    return near, far


def ms_per_mb(way: Way, takes: bool, path: Path, size_bytes: int) -> float:
    near, far = connected()
    pid = other_end(far, size_bytes, takes)
    far.close()
    with path.open("r+b") as file, near:
        start = process_time()
        way(near, file.fileno(), size_bytes)
        used = process_time() - start
    assert os.waitpid(pid, 0)[1] == 0, "the other end did not get all"
    return used * 1000 / (size_bytes / MB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    size_bytes = asked.megabytes * MB
    with tempfile.TemporaryDirectory(prefix="bench-sending-") as directory:
        path = Path(directory) / "segment"
        path.write_bytes(os.urandom(BATCH_BYTES) * (size_bytes // BATCH_BYTES + 1))
        print("| way | CPU, ms/MB, median | lowest to highest |\n|---|---|---|")
        for name, (way, takes) in WAYS.items():
            found = sorted(ms_per_mb(way, takes, path, size_bytes) for _ in range(asked.rounds))
            print(f"| {name} | {median(found):.2f} | {found[0]:.2f} to {found[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
