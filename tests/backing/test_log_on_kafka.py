"""Shards whose logs are on a running Apache Kafka: who owns one, what is kept, what a node of the past may do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.backing.claims import ClaimKind, Endpoint
from coordinator.backing.kafka.backing_log import prepared_topic
from coordinator.backing.kafka.cluster import BackingCluster, BackingError, Lane, OpenConnection
from coordinator.backing.kafka.fetched import FetchedBatch
from coordinator.backing.kafka.topic import BackingTopic, check_settings, ensure_topic
from coordinator.backing.states import ACTIVE, FOLLOWING
from harness.kafka_broker import KafkaBroker
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.produce import ProduceRequest
from tests.backing.kafka_node import (
    PARTITIONS,
    TIMING,
    KafkaNode,
    own_node,
    running_cluster,
    stop_reading,
    until,
    wall_ms,
)

pytestmark = [pytest.mark.xdist_group("backing"), pytest.mark.asyncio]


async def test_what_one_node_wrote_another_takes_over(kafka: KafkaBroker, topic: BackingTopic) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as first, KafkaNode(kafka.bootstrap, topic, 2) as second:
        await first.own()
        await first.commit(a="1", b="1")
        await first.commit(a="2")
        await until(lambda: second.shards[0].values == {b"a": b"2", b"b": b"1"}, "the other follows")
        first.drivers[0].advise(False)
        await second.own()
        assert first.shards[0].retired == 1
        await second.commit(b="2")
        assert second.shards[0].values == {b"a": b"2", b"b": b"2"}
        await until(
            lambda: first.shards[0].values == second.shards[0].values, "the first follows in its turn"
        )
        assert [driver.foreign_batches for driver in (*first.drivers.values(), *second.drivers.values())] == [
            0
        ] * 6


async def test_a_release_names_an_heir_who_owns_it_without_being_told(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """The group of nodes may take seconds to tell anybody, as when one of them has just gone without a word."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as first, KafkaNode(kafka.bootstrap, topic, 2) as second:
        second.drivers[1].may_inherit = lambda: False
        for partition in range(3):
            await first.own(partition)
        await first.commit(a="1")
        first.drivers[2].advise(False, heir_id=3)
        first.drivers[1].advise(False, heir_id=2)
        first.drivers[0].advise(False, heir_id=2)
        await until(lambda: second.drivers[0].ownership.state is ACTIVE, "the heir owns it")
        assert second.shards[0].values == {b"a": b"1"}
        await until(lambda: second.drivers[1].owner is second.drivers[2].owner is None, "all are released")
        assert [second.drivers[each].ownership.state for each in (1, 2)] == [FOLLOWING] * 2


async def test_every_node_knows_where_the_owner_is(kafka: KafkaBroker, topic: BackingTopic) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as first, KafkaNode(kafka.bootstrap, topic, 2) as second:
        moves: list[int] = []
        second.drivers[0].on_moved = moves.append

        async def all_know(endpoints: tuple[Endpoint, ...] | None) -> None:
            await until(lambda: found(first) == found(second) == endpoints, f"both know {endpoints}")

        for owner, number in ((first, 1), (second, 2)):
            await owner.own()
            await all_know(own_node(number).endpoints)
            owner.drivers[0].advise(False)
            await all_know(None)
        assert moves == [0, 0, 0, 0]
        assert second.drivers[1].owner is None


def found(node: KafkaNode) -> tuple[Endpoint, ...] | None:
    """Where the node sends clients of shard 0."""
    owner = node.drivers[0].owner
    return None if owner is None else owner.endpoints


async def test_a_node_of_the_past_writes_and_answers_nothing(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """Both are told to own the shard; the first hears nothing of the second's claim before it writes."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as zombie, KafkaNode(kafka.bootstrap, topic, 2) as owner:
        await zombie.own()
        await zombie.commit(a="1")
        await stop_reading(zombie.log)
        await owner.own()
        assert not zombie.drivers[0].may_answer, "its lease was waited out"
        await owner.commit(a="2")
        zombie.shards[0].write(zombie.drivers[0], a="3")
        await until(lambda: zombie.shards[0].refused == [(b"a", b"3")], "it is refused")
        assert zombie.drivers[0].ownership.state is FOLLOWING
        assert zombie.shards[0].acknowledged == [(b"a", b"1")]
    async with KafkaNode(kafka.bootstrap, topic, 3) as reader:
        await until(lambda: reader.shards[0].values == {b"a": b"2"}, "what the log says")


async def test_over_a_new_connection_a_node_reads_before_it_writes(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a day for which its machine stood still: the cluster would take its batch, and is not sent it."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as zombie, KafkaNode(kafka.bootstrap, topic, 2) as owner:
        await zombie.own()
        await zombie.commit(a="1")
        await stop_reading(zombie.log)
        await owner.own()
        leader = zombie.cluster.leader_of(0)
        assert leader is not None
        (await zombie.cluster.open(leader, Lane.APPEND)).connection.close()
        asked, ask_over = [], zombie.cluster.ask_over

        async def noting(opened: OpenConnection, message: Any, **versions: Any) -> Any:
            asked.append(type(message).__name__)
            return await ask_over(opened, message, **versions)

        monkeypatch.setattr(zombie.cluster, "ask_over", noting)
        zombie.shards[0].write(zombie.drivers[0], a="3")
        await until(lambda: zombie.shards[0].refused == [(b"a", b"3")], "it is refused")
        await until(lambda: asked == ["FetchRequest"], "it has read")
        await zombie.log._sender.close()
        assert asked == ["FetchRequest"], "and sent nothing"


async def test_another_producer_id_shuts_out_all_epochs_of_the_one_before(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after seven days, when the coordinator of transactions has forgotten the shard's transactional id."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as zombie, KafkaNode(kafka.bootstrap, topic, 2) as owner:
        await zombie.own()
        await zombie.commit(a="1")
        await stop_reading(zombie.log)
        monkeypatch.setattr(owner.drivers[0]._ports.epochs, "_topic", f"{topic.name} after seven days")
        await owner.own()
        book = owner.drivers[0].ownership.book
        assert book.is_sealed(zombie.drivers[0].ownership.appender.writer.producer_id)
        assert owner.shards[0].values == {b"a": b"1"}
        zombie.shards[0].write(zombie.drivers[0], a="3")
        await until(lambda: zombie.shards[0].refused == [(b"a", b"3")], "it is refused")
        await owner.commit(a="2")


async def test_an_append_whose_answer_is_lost_is_in_the_log_once(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await node.own()
        await node.commit(a="0")
        shard, driver = node.shards[0], node.drivers[0]
        for number in range(5):
            await until(lambda: driver.can_write, "the one before")
            shard.write(driver, a=str(number))
            await asyncio.sleep(0)  # It is on its way.
            leader = node.cluster.leader_of(0)
            assert leader is not None
            (await node.cluster.open(leader, Lane.APPEND)).connection.close()
        await until(lambda: len(shard.acknowledged) == 6, "all are acknowledged")
        latest = driver.ownership.book.latest
        assert latest is not None
        assert latest.claim.kind is ClaimKind.CLAIMED
        await until(lambda: driver.position == latest.offset + 7, "the claim, and each once")


async def test_what_cannot_be_read_is_not_passed_over_and_holds_up_no_other(
    kafka: KafkaBroker, topic: BackingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        KafkaNode(kafka.bootstrap, topic, 1) as owner,
        KafkaNode(kafka.bootstrap, topic, 2) as follower,
    ):
        tries = []

        def follow(batch: FetchedBatch) -> None:
            tries.append(batch.header.base_offset)
            raise DecodeError("of a later version")

        monkeypatch.setattr(follower.shards[0], "follow", follow)
        for partition in (0, 1):
            await owner.own(partition)
            await owner.commit(partition, a="1")
        await until(lambda: follower.shards[1].values == {b"a": b"1"}, "the other is read")
        await until(lambda: len(tries) > 1, "it is tried again")
        assert len(set(tries)) == 1, "and nothing behind it is"
        follower.drivers[0].advise(True)
        assert follower.drivers[0].ownership.state is FOLLOWING
        monkeypatch.undo()
        await until(lambda: follower.shards[0].values == {b"a": b"1"}, "it is read once it can be")


async def test_shards_of_one_broker_are_written_side_by_side(kafka: KafkaBroker, topic: BackingTopic) -> None:
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await asyncio.gather(*(node.own(partition) for partition in range(PARTITIONS)))
        for number in range(50):
            await asyncio.gather(*(node.commit(partition, a=str(number)) for partition in range(PARTITIONS)))
        async with KafkaNode(kafka.bootstrap, topic, 2) as other:
            await until(
                lambda: all(shard.values == {b"a": b"49"} for shard in other.shards.values()), "all are read"
            )


async def test_an_owner_without_anything_to_write_keeps_its_lease(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """By reading to the end, which proves that nobody else has claimed the log."""
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await node.own()
        driver = node.drivers[0]
        begun_ms = driver.ownership.lease.proven_ms
        await until(
            lambda: driver.ownership.lease.proven_ms > begun_ms + 2 * TIMING.lease_ms, "it is proven again"
        )
        await until(lambda: driver.may_answer, "it answers")
        await stop_reading(node.log)
        await until(lambda: not driver.may_answer, "without a proof it does not")
        assert driver.ownership.state is ACTIVE


async def test_what_was_acknowledged_outlives_the_broker(java: None, tmp_path: Path) -> None:
    """It is killed under an owner that writes; who takes over reads all, and each batch is in the log once."""
    with KafkaBroker(tmp_path / "kafka") as broker:
        async with running_cluster(broker.bootstrap) as cluster:
            topic = await prepared_topic(cluster, "muster", 1, wall_ms())
        async with KafkaNode(broker.bootstrap, topic, 1) as node:
            await node.own()
            for number in range(20):
                await node.commit(a=str(number))
            node.shards[0].write(node.drivers[0], b="in flight")
            await asyncio.to_thread(broker.kill)
            await until(lambda: not node.drivers[0].may_answer, "nothing proves it the newest")
            await asyncio.to_thread(broker.start)
            await until(lambda: (b"b", b"in flight") in node.shards[0].acknowledged, "it is found out")
            await node.commit(a="after")
            assert node.shards[0].dropped == 0, "the owner goes on under its epoch"
        async with KafkaNode(broker.bootstrap, topic, 2) as other:
            await other.own()
            assert other.shards[0].values == {b"a": b"after", b"b": b"in flight"}


async def test_a_topic_that_is_made_again_is_another_log(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """Deleted by hand, and there again under its name: nothing is acknowledged, and soon nothing answered."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    async with KafkaNode(kafka.bootstrap, topic, 1) as node:
        await node.own()
        await node.commit(a="1")
        await asyncio.to_thread(admin.delete_topics([topic.name])[topic.name].result, 30)
        again = NewTopic(topic.name, PARTITIONS, 1)
        await until(lambda: _is_made(admin, again), "it is there again")
        node.shards[0].write(node.drivers[0], a="2")
        await until(lambda: not node.drivers[0].may_answer, "the lease is over")
        await node.cluster.follow(topic.name)
        await asyncio.sleep(1)
        assert node.shards[0].acknowledged == [(b"a", b"1")]
        assert not node.drivers[0].may_answer
        assert node.shards[0].dropped == 0, "it has not read the new one"


def _is_made(admin: AdminClient, topic: NewTopic) -> bool:
    try:
        admin.create_topics([topic])[topic.topic].result(30)
    except KafkaException:  # The one before is still on its way out.
        return False
    return True


class LyingCluster(BackingCluster):
    """One that answers the n-th Produce of a connection otherwise than Kafka does."""

    def __init__(self, bootstrap: str, lies_about: int) -> None:
        super().__init__(bootstrap)
        self._lies_about = lies_about
        self._produced = 0

    async def ask(self, node_id: int, message: Any, *lane: Any, **versions: Any) -> Any:
        answer = await super().ask(node_id, message, *lane, **versions)
        if isinstance(message, ProduceRequest):
            self._produced += 1
            if self._produced == self._lies_about:
                result = answer.responses[0].partition_responses[0]
                is_refused = result.error_code != ErrorCode.NONE
                result.error_code = ErrorCode.NONE if is_refused else ErrorCode.INVALID_PRODUCER_EPOCH
                result.base_offset = 0
        return answer


@pytest.mark.parametrize(
    ("lies_about", "row"),
    [
        (1, "a batch in no transaction is taken under the producer epoch of a transactional id"),
        (2, "a batch that is sent again is recognised"),
        (3, "a batch that is sent again is recognised"),
        (4, "a gap in the sequences is refused"),
        (5, "a newer epoch is taken"),
        (6, "then a batch of the older epoch is refused"),
        (7, "so is one of the older epoch that was acknowledged before"),
        (10, "so is one of the older epoch with the sequence of a newer one"),
        (11, "the highest epoch shuts out all others of its producer id"),
        (12, "the highest epoch shuts out all others of its producer id"),
    ],
)
async def test_a_cluster_that_does_not_fence_is_refused_with_the_row(
    kafka: KafkaBroker, lies_about: int, row: str
) -> None:
    async with running_cluster(kafka.bootstrap, LyingCluster(kafka.bootstrap, lies_about)) as cluster:
        with pytest.raises(BackingError, match=f"^the cluster cannot have the log, .*: not so that {row}$"):
            await prepared_topic(cluster, "lies", 1, wall_ms())


SOUND = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
    "min.compaction.lag.ms": "60000",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
}


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("cleanup.policy", "compact,delete", "what is deleted by age or size is lost to the groups"),
        (
            "unclean.leader.election.enable",
            "true",
            "a leader that lacks what was acknowledged loses it for all",
        ),
        ("message.timestamp.type", "CreateTime", "the cluster forgets whom to fence by a batch's time"),
        ("min.compaction.lag.ms", "0", "a claim could be gone before the owner before it has seen it"),
        ("delete.retention.ms", "86399999", "who follows slowly would keep what was deleted"),
        ("max.message.bytes", "1048587", "what a group writes at once would be refused"),
    ],
)
async def test_a_topic_that_would_break_a_promise_is_refused(setting: str, value: str, sentence: str) -> None:
    check_settings("t", SOUND)
    with pytest.raises(BackingError, match=f"topic t has {setting}={value} and not .*{sentence}"):
        check_settings("t", SOUND | {setting: value})


async def test_a_topic_with_another_partition_count_is_refused(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    async with running_cluster(kafka.bootstrap) as cluster:
        assert (await ensure_topic(cluster, topic.name, PARTITIONS)).topic_id == topic.topic_id
        with pytest.raises(
            BackingError, match="has 3 partitions and not 50: groups would be looked for where"
        ):
            await ensure_topic(cluster, topic.name, 50)


async def test_a_topic_that_is_made_says_what_it_does_not_protect_from(topic: BackingTopic) -> None:
    assert topic.warnings == (f"topic {topic.name} has one replica: with its disk all groups are lost",)


async def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(BackingError, match=r"no Kafka broker answers on 127\.0\.0\.1:1: "):
        await BackingCluster("127.0.0.1:1").start()
