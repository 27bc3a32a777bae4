"""A daemon keeps to quotas, by raw frames: throttle times, muted connections, what bystanders see (Q7 to Q15)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.quotas.entities import CLIENT_KEYS
from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record
from tests.batches import encode_batch
from tests.quotas.asking import Parts, alteration, entry

TOPIC = "t"
SLACK_S = 5
"""How much later than it may be an answer may come on a busy machine; never earlier."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("quotas"), {"muster.flush.policy": "os"}) as started:
        with WireClient(started.bootstrap) as client:
            make_topics(client, TOPIC)
        yield started


def make_topics(client: WireClient, *names: str, partitions: int = 1, version: int = 7) -> Any:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return client.ask(CreateTopicsRequest(topics=topics, timeout_ms=5_000), version)


def grow(name: str) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5_000)


@pytest.fixture
def client(daemon: MusterDaemon, request: pytest.FixtureRequest) -> Iterator[WireClient]:
    """A client with an id of its own, and so with buckets of its own."""
    with WireClient(daemon.bootstrap, request.node.name) as connected:
        yield connected


def limit(daemon: MusterDaemon, parts: Parts, **quotas: float | None) -> None:
    with WireClient(daemon.bootstrap, "admin") as admin:
        (result,) = admin.ask(alteration(entry(parts, **quotas)), 1).entries
        assert result.error_code == 0, result


@pytest.fixture
def limited(daemon: MusterDaemon, client: WireClient) -> Iterator[Any]:
    """Sets quotas of the client's id, and removes them all afterwards."""
    own = {"client-id": client.client_id}
    yield lambda **quotas: limit(daemon, own, **quotas)
    limit(daemon, own, **dict.fromkeys(CLIENT_KEYS))


def produce(size: int, acks: int = 1, topic: str = TOPIC) -> ProduceRequest:
    records = encode_batch([Record(key=None, value=b"x" * size, timestamp_ms=1)])
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=5_000, topic_data=topics)


def fetch(topic: str, offset: int = 0, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


def seconds(client: WireClient, request: Any, version: int) -> tuple[Any, float]:
    began_s = time.monotonic()
    answer = client.ask(request, version)
    return answer, time.monotonic() - began_s


def assert_muted(client: WireClient, throttle_ms: int, since_s: float) -> None:
    """The next request, sent at once, is answered when the throttle time is over."""
    client.ask(ListGroupsRequest(), 0)
    waited_s = time.monotonic() - since_s
    assert throttle_ms / 1_000 - 0.02 <= waited_s <= throttle_ms / 1_000 + SLACK_S


def records_in(answer: Any) -> bytes:
    return b"".join(bytes(part.records or b"") for topic in answer.responses for part in topic.partitions)


def test_a_producer_is_answered_at_once_and_muted(client: WireClient, limited: Any) -> None:
    """Q9, Q10, Q15: ten seconds' worth of bytes pass; what is over them is waited for, by the connection."""
    limited(producer_byte_rate=10_000)
    first = client.ask(produce(60_000), 9)
    assert first.throttle_time_ms == 0
    since_s = time.monotonic()
    second, took_s = seconds(client, produce(100_000), 9)
    assert second.responses[0].partition_responses[0].error_code == 0
    assert 5_000 <= second.throttle_time_ms < 6_100, "16 s of bytes, and a window of 10 to 11"
    assert took_s * 1_000 < second.throttle_time_ms
    assert_muted(client, second.throttle_time_ms, since_s)


def test_requests_in_the_same_segment_wait_for_the_end_of_the_mute(client: WireClient, limited: Any) -> None:
    limited(producer_byte_rate=10_000)
    since_s = time.monotonic()
    client.send(produce(105_000), 9)
    client.send(ListGroupsRequest(), 0)
    client.send(produce(10), 9)
    throttled = client.receive()
    assert 500 <= throttled.throttle_time_ms < 600
    client.receive()
    waited_s = time.monotonic() - since_s
    assert (
        throttled.throttle_time_ms / 1_000 - 0.02 <= waited_s <= throttled.throttle_time_ms / 1_000 + SLACK_S
    )
    assert client.receive().throttle_time_ms >= 0


def test_a_producer_that_wants_no_answer_is_muted(client: WireClient, limited: Any) -> None:
    limited(producer_byte_rate=10_000)
    since_s = time.monotonic()
    client.send(produce(105_000, acks=0), 9)
    client._asked.pop()
    assert_muted(client, 500, since_s)


def topic_with(daemon: MusterDaemon, name: str, *sizes: int) -> str:
    """Make a topic with a batch of each size."""
    with WireClient(daemon.bootstrap, "filler") as filler:
        make_topics(filler, name)
        for size in sizes:
            assert (
                filler.ask(produce(size, topic=name), 9).responses[0].partition_responses[0].error_code == 0
            )
    return name


def test_a_consumer_over_its_limit_gets_nothing_and_its_session_stays(
    daemon: MusterDaemon, client: WireClient, limited: Any
) -> None:
    """Q11: the epoch counts on, what was not sent comes with a later fetch, and does not count before."""
    topic = topic_with(daemon, "sessions", 60_000, 60_000)
    limited(consumer_byte_rate=6_500)
    opened = client.ask(fetch(topic, epoch=0), 11)
    assert (opened.throttle_time_ms, len(records_in(opened)) > 60_000) == (0, True), (
        "the first batch alone fits"
    )
    since_s = time.monotonic()
    over, took_s = seconds(client, fetch(topic, 1, opened.session_id, 1), 11)
    assert (over.session_id, over.error_code, over.responses) == (opened.session_id, 0, [])
    assert 7_400 < over.throttle_time_ms < 8_600, "120 KB are 18.5 s, and the window is of 10 to 11"
    assert took_s * 1_000 < over.throttle_time_ms, "it is not waited for"
    limited(consumer_byte_rate=650_000)
    with WireClient(daemon.bootstrap, client.client_id) as other:
        later = other.ask(fetch(topic, 1, opened.session_id, 2), 11)
    assert (later.throttle_time_ms, later.error_code, len(records_in(later)) > 60_000) == (0, 0, True)
    assert (time.monotonic() - since_s) * 1_000 < over.throttle_time_ms, "while the first connection is muted"


def test_a_throttled_fetch_opens_no_session(daemon: MusterDaemon, client: WireClient, limited: Any) -> None:
    topic = topic_with(daemon, "unopened", 60_000)
    limited(consumer_byte_rate=5_000)
    answer = client.ask(fetch(topic, epoch=0), 11)
    assert (answer.session_id, answer.responses, answer.throttle_time_ms > 2_000) == (0, [], True)


def test_a_fetch_is_cut_to_ten_seconds_worth(daemon: MusterDaemon, client: WireClient, limited: Any) -> None:
    """Q11: more could never be sent."""
    topic = topic_with(daemon, "cut", *[10_000] * 4)
    assert len(records_in(client.ask(fetch(topic), 11))) > 40_000
    limited(consumer_byte_rate=3_000)
    cut = client.ask(fetch(topic), 11)
    assert cut.throttle_time_ms == 0
    assert 20_000 < len(records_in(cut)) <= 30_000


def test_bystanders_are_not_throttled(daemon: MusterDaemon, client: WireClient, limited: Any) -> None:
    limited(producer_byte_rate=1, consumer_byte_rate=1, request_percentage=0.001)
    with WireClient(daemon.bootstrap, "bystander") as bystander:
        for _ in range(3):
            assert bystander.ask(produce(1_000), 9).throttle_time_ms == 0


def test_time_on_the_loop_is_throttled(client: WireClient, limited: Any) -> None:
    """Q12: for a second at most, whatever is asked, and however little is left."""
    limited(request_percentage=0.0001)
    since_s = time.monotonic()
    answer = client.ask(ListGroupsRequest(), 4)
    assert 0 < answer.throttle_time_ms <= 1_000
    assert_muted(client, answer.throttle_time_ms, since_s)


def test_heartbeats_that_were_prepared_are_throttled_from_the_first_quota_on(
    client: WireClient, limited: Any
) -> None:
    """Equal bytes would be answered without being looked at (A28)."""
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for _ in range(4):
        assert client.ask(beat, 4).throttle_time_ms == 0
    limited(request_percentage=0.0001)
    throttled = client.ask(beat, 4)
    assert throttled.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert throttled.throttle_time_ms > 0
    assert client.ask(beat, 4).throttle_time_ms > 0
    limited(request_percentage=None)
    client.ask(beat, 4)
    for _ in range(4):
        assert client.ask(beat, 4).throttle_time_ms == 0


def test_partitions_beyond_the_permits_are_refused_topic_by_topic(client: WireClient, limited: Any) -> None:
    """Q13: eleven seconds' worth, and the last may go below zero. What has passed since comes back."""
    limited(controller_mutation_rate=0.1)
    began_s = time.monotonic()
    assert make_topics(client, "m1", partitions=3).topics[0].error_code == 0
    refused = make_topics(client, "m2")
    took_ms = (time.monotonic() - began_s) * 1_000
    (topic,) = refused.topics
    assert topic.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 19_000 - took_ms - 1 <= refused.throttle_time_ms <= 19_000, "1.9 permits are missing"
    assert took_ms < refused.throttle_time_ms, "it is not waited for"


def test_old_versions_pass_and_are_throttled(daemon: MusterDaemon, client: WireClient, limited: Any) -> None:
    limited(controller_mutation_rate=0.1)
    began_s = time.monotonic()

    def is_missing(throttle_ms: int, permits: float) -> bool:
        """Whether as many permits are waited for, but for those that have come since."""
        took_ms = (time.monotonic() - began_s) * 1_000
        return permits * 10_000 - took_ms - 1 <= throttle_ms <= permits * 10_000

    answer = make_topics(client, "old1", partitions=3, version=5)
    assert (answer.topics[0].error_code, is_missing(answer.throttle_time_ms, 1.9)) == (0, True)
    with WireClient(daemon.bootstrap, client.client_id) as other:
        assert is_missing(make_topics(other, "old2", version=4).throttle_time_ms, 2.9)
    with WireClient(daemon.bootstrap, client.client_id) as other:
        grown = other.ask(grow("old2"), 3)
        assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with WireClient(daemon.bootstrap, client.client_id) as other:
        deleted = other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="old2")], timeout_ms=5_000), 6)
        assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with WireClient(daemon.bootstrap, client.client_id) as other:
        deleted = other.ask(DeleteTopicsRequest(topic_names=["old2"], timeout_ms=5_000), 4)
        assert (deleted.responses[0].error_code, is_missing(deleted.throttle_time_ms, 3.9)) == (0, True)


def test_a_client_that_ignores_throttle_times_gets_its_rate(tmp_path: Path) -> None:
    """By muting alone: 20 requests are sent at once, and answered no faster than the limit, but for the burst.

    That is of two seconds here, and of what is answered before it is waited for.
    """
    rate, size, count = 50_000, 15_000, 20
    with MusterDaemon(tmp_path, {"quota.window.num": "3"}) as daemon, WireClient(daemon.bootstrap) as client:
        make_topics(client, TOPIC)
        limit(daemon, {"user": None}, producer_byte_rate=rate)
        since_s = time.monotonic()
        for _ in range(count):
            client.send(produce(size), 9)
        for _ in range(count):
            client.receive()
        took_s = time.monotonic() - since_s
    assert (count - 1) * size / rate - 2 <= took_s <= count * size / rate + SLACK_S


def test_connections_over_the_rate_of_their_address_are_held_and_closed(daemon: MusterDaemon) -> None:
    """The eleventh is held until the rate is below its limit, within a second; other addresses come in.

    That is a whole number of seconds after the first one came, and so never before one.
    """
    host, port = daemon.bootstrap.rsplit(":", 1)
    address = "127.0.0.9"
    limit(daemon, {"ip": address}, connection_creation_rate=1)

    def connect(source: str) -> socket.socket:
        return socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))

    began_s = time.monotonic()
    opened = [connect(address) for _ in range(10)]
    since_s = time.monotonic()
    with connect(address) as eleventh, connect("127.0.0.2") as other:
        assert eleventh.recv(1) == b""
        assert time.monotonic() - began_s >= 1 - 0.02
        assert time.monotonic() - since_s <= 1 + SLACK_S
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1)
    for each in opened:
        each.setblocking(False)
        with pytest.raises(BlockingIOError):
            each.recv(1)
        each.close()
    limit(daemon, {"ip": address}, connection_creation_rate=None)


def test_quotas_are_in_force_after_a_restart(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path)
    with daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topics(client, TOPIC)
        limit(daemon, {"user": "ANONYMOUS"}, producer_byte_rate=1_000)
    with daemon, WireClient(daemon.bootstrap) as client:
        assert client.ask(produce(20_000), 9).throttle_time_ms >= 10_000
