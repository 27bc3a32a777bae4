"""A daemon that compresses what it is sent, and is stopped in the middle of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.topics.world import batch

PARTITIONS = 12
BATCH_BYTES = 900_000
LATEST = -1
SETTINGS = {
    "compression.type": "gzip",
    "compression.gzip.level": "9",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


def end_of_first(client: WireClient) -> int:
    """How many records the first partition has."""
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
    answer: ListOffsetsResponse = client.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
    return answer.topics[0].partitions[0].offset


def test_a_stop_appends_and_acknowledges_what_is_being_compressed(tmp_path: Path) -> None:
    text = Random(1).choices(b"abcdefgh", k=BATCH_BYTES)
    data = batch(bytes(text))
    partitions = [PartitionProduceData(index=index, records=data) for index in range(PARTITIONS)]
    produced = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
    )
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        with WireClient(daemon.bootstrap) as client, WireClient(daemon.bootstrap) as other:
            topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            assert (
                client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics[0].error_code == 0
            )
            client.send(produced, 9)
            wait_until(lambda: end_of_first(other) == 1, "the first is in its log", 10)
            assert daemon.terminate() == 0
            (answered,) = client.receive().responses
        assert [each.error_code for each in answered.partition_responses] == [0] * PARTITIONS
        assert "Traceback" not in daemon.log_path.read_text()
        stored = sum(path.stat().st_size for path in daemon.log_dir.glob("t-*/*.log"))
        assert PARTITIONS * BATCH_BYTES // 4 < stored < PARTITIONS * BATCH_BYTES // 2, "three bits of eight"
