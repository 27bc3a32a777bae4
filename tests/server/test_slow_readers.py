"""Consumers that ask for much and read nothing: the daemon's memory does not follow what they asked for."""

from __future__ import annotations

from pathlib import Path

import psutil

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.framing import encode_request
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record, encode_batch

RECORD_BYTES = 900_000
BATCHES = 20
READERS = 30
MAY_GROW_BYTES = 40 << 20
"""A piece and a socket's own buffer for each, which the kernel counts elsewhere; asked for are 540 MB."""


def rss(daemon: MusterDaemon) -> int:
    return int(psutil.Process(daemon.pid).memory_info().rss)


def fetch_frame() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic(topic="t", partitions=[partition])]
    )
    return encode_request(request, 12, 1, "slow")


def test_readers_that_do_not_read_do_not_grow_the_daemon(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path) as daemon, WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic]), 5)
        for _ in range(BATCHES):
            data = PartitionProduceData(
                index=0, records=encode_batch([Record(None, bytes(RECORD_BYTES), 1_700_000_000_000)])
            )
            request = ProduceRequest(
                acks=-1, timeout_ms=9000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
            )
            assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0
        before = rss(daemon)
        readers = [WireClient(daemon.bootstrap) for _ in range(READERS)]
        for reader in readers:
            reader.socket.sendall(fetch_frame() * 3)
            assert reader.socket.recv(4), "it has begun to answer"
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert client.ask(beat, 4).error_code != 0, "others are answered meanwhile"
        assert rss(daemon) - before < MAY_GROW_BYTES
        for reader in readers:
            reader.close()
