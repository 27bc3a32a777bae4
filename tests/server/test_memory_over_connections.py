"""Peers that begin large requests and do not finish them: what they cost together, and whom they hold up."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType

import psutil

from harness.daemon import MusterDaemon
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record, encode_batch

PEERS = 12
FRAME_BYTES = 100 << 20
SENT_BYTES = 60 << 20
RESIDENT_MAX_BYTES = 400_000_000
WATCHED_S = 3.0
ANSWER_S = 5.0
"""For an honest client while the peers press on: an idle machine takes milliseconds. Behind the peers that wait
for memory it would be ten times two seconds, after which one that sends no more gives way."""

GIVEN_BACK_BYTES = 60 << 20
"""Above what the daemon had before: less than one of the peers held."""

CHUNK = bytes(1 << 18)


class Unfinished:
    """Peers that send `SENT_BYTES` of a Produce each, as fast as they are read, and then nothing."""

    def __init__(self, port: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.sent: dict[socket.socket, int] = {}
        for _ in range(PEERS):
            peer = socket.create_connection((HOST, port), timeout=10)
            peer.sendall(struct.pack(">ihhihh", FRAME_BYTES, 0, 9, 1, -1, 0))
            peer.setblocking(False)
            self.sent[peer] = 0
            self._selector.register(peer, selectors.EVENT_WRITE)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._push)

    def _push(self) -> None:
        while not self._is_over.is_set():
            for key, _ in self._selector.select(0.05):
                peer = key.fileobj
                assert isinstance(peer, socket.socket)
                self._push_one(peer)

    def _push_one(self, peer: socket.socket) -> None:
        try:
            self.sent[peer] += peer.send(CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:  # Others waited for what it held.
            self._selector.unregister(peer)
            return
        if self.sent[peer] >= SENT_BYTES:
            self._selector.unregister(peer)

    def __enter__(self) -> Unfinished:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        for peer in self.sent:
            peer.close()


def resident_bytes(daemon: MusterDaemon) -> int:
    return int(psutil.Process(daemon.pid).memory_info().rss)


def produce(value_bytes: int) -> ProduceRequest:
    records = encode_batch([Record(None, bytes(value_bytes), 1_700_000_000_000)])
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )


def test_peers_that_do_not_finish_cost_a_bounded_amount_and_hold_no_other_up(tmp_path: Path) -> None:
    """Under default settings; also a producer with a batch of the usual largest size is served meanwhile."""
    with MusterDaemon(tmp_path) as daemon, WireClient(daemon.bootstrap) as honest:
        honest.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 9
        )
        before = resident_bytes(daemon)
        with Unfinished(daemon.port) as peers:
            wait_until(lambda: max(peers.sent.values()) >= SENT_BYTES, "one has sent its share", 20)
            most_bytes, end = 0, time.monotonic() + WATCHED_S
            while time.monotonic() < end:
                start = time.monotonic()
                beat = honest.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
                assert beat.error_code != 0, "no such member, and that is said"
                written = honest.ask(produce(1_000_000), 9)
                assert written.responses[0].partition_responses[0].error_code == 0
                assert time.monotonic() - start < ANSWER_S
                most_bytes = max(most_bytes, resident_bytes(daemon))
            assert most_bytes < RESIDENT_MAX_BYTES
            wait_until(
                lambda: sum(sent >= SENT_BYTES for sent in peers.sent.values()) > 1,
                "one that sends no more has made place for the next",
                20,
            )
        assert "others wait for its memory" in daemon.log_path.read_text()
        wait_until(lambda: resident_bytes(daemon) < before + GIVEN_BACK_BYTES, "memory is given back", 30)
        print(f"12 peers: at most {most_bytes / 1e6:.0f} MB resident")
