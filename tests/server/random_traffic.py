"""Random requests of every API and version, sent to a live daemon in waves: each on a connection of its own.

A peer that is answered keeps its connection, one that is closed on or parked gets another. Behind each wave an
honest client has to be served.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from operator import attrgetter
from random import Random
from typing import Any, Final

import psutil

from harness.daemon import MusterDaemon
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.codec.codec import decode, spec
from protocol.errors import DecodeError
from protocol.framing import skip_tagged_fields
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from tests.protocol.random_messages import (
    HEADER_BYTES,
    NAMES,
    SIZE_BYTES,
    SMALL,
    intact_frame,
    random_frame,
)

Frame = Callable[[Random, int, int], bytes]

SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.max.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "50",
    "muster.client.metrics": "true",
    "auto.create.topics.enable": "false",  # Damaged names would be topics; CreateTopics makes some.
}
COUNTS: Final[dict[int | None, tuple[type[Any], Callable[[Any], int]]]] = {
    spec(CreateTopicsRequest).api_key: (CreateTopicsRequest, attrgetter("num_partitions")),
    spec(CreatePartitionsRequest).api_key: (CreatePartitionsRequest, attrgetter("count")),
}
"""The requests that make partitions, by API key, and of how many each of their topics is to have."""

WAVE: Final = 200
PATIENCE_S: Final = 0.02
"""Without another answer, once an honest client was served behind the wave; who is parked longer is left."""

HONEST_S: Final = 10.0
BAD_WORDS: Final = ("Traceback", "request failed", "a timer failed", "never retrieved", "AssertionError")


class RandomTraffic:
    """Sends frames that follow from `seed` to `daemon`."""

    def __init__(self, daemon: MusterDaemon, seed: int) -> None:
        self._daemon = daemon
        self._random = Random(seed)
        self._idle: list[socket.socket] = []
        self.answered = self.closed = self.sent = 0
        with WireClient(daemon.bootstrap) as client:
            hello = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        self.pairs = [
            (row.api_key, version)
            for row in hello.api_keys
            for version in range(row.min_version, row.max_version + 1)
        ]

    def send_intact(self) -> None:
        """One frame of every API and version, as clients send it: each codec is compiled by its first."""
        self._send(len(self.pairs), intact_frame)

    def make_largest_topic(self) -> None:
        """One of as many partitions as random frames ever ask for."""
        topic = CreatableTopic(name=NAMES[0], num_partitions=max(SMALL), replication_factor=1)
        with WireClient(self._daemon.bootstrap) as client:
            made = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert made.topics[0].error_code == 0

    def send(self, count: int) -> None:
        """So many frames; every API and version in turn. Fails if an honest client is not served meanwhile."""
        self._send(count, random_frame)

    def _send(self, count: int, frame: Frame) -> None:
        while count > 0:
            self._wave(min(WAVE, count), frame)
            count -= WAVE

    def check_honest(self) -> None:
        start = time.monotonic()
        with WireClient(self._daemon.bootstrap) as client:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers
        assert time.monotonic() - start < HONEST_S

    def check_log(self) -> None:
        """No exception came out of it."""
        log = self._daemon.log_path.read_text()
        for word in BAD_WORDS:
            at = log.find(word)
            assert at < 0, log[max(0, at - 1000) : at + 3000]

    def _wave(self, count: int, frame: Frame) -> None:
        poll, waiting = select.epoll(), {}
        for _ in range(count):
            key, version = self.pairs[self.sent % len(self.pairs)]
            self.sent += 1
            data = frame(self._random, key, version)
            while _partitions(data) > max(SMALL):
                data = frame(self._random, key, version)
            peer = self._idle.pop() if self._idle else self._connect()
            try:
                peer.sendall(data)
            # It was closed on meanwhile: the answer before this had not been the end.
            except ConnectionError:
                peer.close()
                continue
            waiting[peer.fileno()] = peer
            poll.register(peer, select.EPOLLIN)
        self.check_honest()
        while waiting and (answered := poll.poll(PATIENCE_S)):
            for descriptor, _ in answered:
                poll.unregister(descriptor)
                self._took(waiting.pop(descriptor))
        poll.close()
        for peer in waiting.values():
            peer.close()

    def _connect(self) -> socket.socket:
        return socket.create_connection((HOST, self._daemon.port), timeout=HONEST_S)

    def _took(self, peer: socket.socket) -> None:
        try:
            data = peer.recv(1 << 20)
        except ConnectionError:
            data = b""
        if data:
            self.answered += 1
            self._idle.append(peer)
        else:
            self.closed += 1
            peer.close()

    def clean(self) -> None:
        """Leave, and remove all that was made: members expire, groups and topics are deleted."""
        for peer in self._idle:
            peer.close()
        self._idle.clear()
        with WireClient(self._daemon.bootstrap) as client:
            wait_until(lambda: not _groups_left(client), "all groups are gone", 60)
            topics = client.ask(MetadataRequest(topics=None), 12).topics
            ids = [DeleteTopicState(name=each.name) for each in topics if not each.is_internal]
            client.ask(DeleteTopicsRequest(topics=ids, timeout_ms=10_000), 6)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self._daemon.pid).memory_info().rss)


def _partitions(frame: bytes) -> int:
    """How many one topic would have by this frame; one flipped bit can ask for 16,384, and they take 130 MB."""
    key, version, _, client_id_bytes = struct.unpack_from(">hhih", frame, SIZE_BYTES)
    if key not in COUNTS:
        return 0
    cls, count = COUNTS[key]
    start = SIZE_BYTES + HEADER_BYTES + max(0, client_id_bytes)
    try:
        if spec(cls).is_flexible(version):
            start = skip_tagged_fields(frame, start)
        return max(map(count, decode(cls, version, frame, start).topics), default=0)
    except DecodeError:
        return 0  # It is refused.


def _groups_left(client: WireClient) -> list[str]:
    """Those that could not be deleted now, since they have members."""
    ids = [group.group_id for group in client.ask(ListGroupsRequest(), 4).groups]
    if ids:
        client.ask(DeleteGroupsRequest(groups_names=ids), 2)
    return ids
