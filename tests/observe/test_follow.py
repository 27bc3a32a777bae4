"""How a log is followed: what is a hole, what is reported, and when a checkpoint is made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiokafka import ConsumerRecord
from aiokafka.structs import TopicPartition as ClientPartition

from coordinator.effects import CoordinatorRecord, GroupEvent
from coordinator.groups.record_codec import encode_record
from coordinator.history.events import GAP_KEY, encode_event
from muster.cluster import Cluster, ClusterError, UnreachableError
from muster.observe.follow import TOPIC, Follower, Log, Progress
from muster.observe.sinks import Reported, SeveralSinks
from muster.observe.store import Source
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.observe.offsets_log import START_MS, evidence, generation, member, told, tombstone

APP_1 = member("app-1")


def fetched(
    partition: int, *records: tuple[int, CoordinatorRecord]
) -> dict[ClientPartition, list[ConsumerRecord[bytes, bytes]]]:
    """Records at offsets, as aiokafka gives them."""
    batch = []
    for offset, record in records:
        key, value = encode_record(record)
        sizes = (len(key), len(value or b""))
        batch.append(
            ConsumerRecord(
                TOPIC, partition, offset, START_MS + offset, 0, key, value, None, *sizes, headers=()
            )
        )
    return {ClientPartition(TOPIC, partition): batch}


def test_a_jump_of_offsets_is_a_hole_of_its_partition_alone() -> None:
    progress = Progress()
    progress.take(fetched(0, (0, generation(1, APP_1)), (1, generation(1, APP_1, group="b"))))
    progress.take(fetched(1, (0, generation(1, APP_1, group="c")), (9, generation(2, APP_1, group="c"))))
    whole = progress.take(fetched(0, (2, generation(3, APP_1)), (7, generation(3, APP_1, group="b"))))
    gaps = [event.reason for event in whole if event.cause == "generations_missing"]
    assert gaps == [
        "generations are missing: 2, never stored, as no assignment of them came",
        "generations are missing: 2, not on the log, compacted or never stored",
    ]
    assert progress.positions == {0: 8, 1: 10}


def test_what_was_there_before_is_compared_with_and_not_reported() -> None:
    progress = Progress(reported_from={0: 2})
    assert progress.take(fetched(0, (0, generation(1, APP_1)), (1, generation(2, APP_1)))) == []
    events = progress.take(fetched(0, (2, generation(3, APP_1, member("app-2")))))
    assert told(events)[0][2] == "member joined: inferred, not in generation 2"


def test_what_the_topic_has_already_is_left_out_to_the_very_event() -> None:
    """A crash may have cut off the last of a record's events, so their number counts as well."""
    whole = Progress().take(fetched(0, (0, generation(1, APP_1)), (4, generation(2, APP_1, member("app-2")))))
    assert [place(event) for event in whole] == [0, 0, 4, 4]
    for count in range(5):
        reported = Reported()
        for event in whole[:count]:
            reported.add(*encode_event(event))
            reported.add(*encode_event(event))
        reported.add(b"billing", b"{}")
        reported.add(GAP_KEY, None)
        progress = Progress(reported_from=reported.offsets, reported_there=reported.counts)
        records = fetched(0, (0, generation(1, APP_1)), (4, generation(2, APP_1, member("app-2"))))
        assert progress.take(records) == whole[count:]


def place(event: GroupEvent) -> int:
    assert event.observed is not None
    return event.observed.offset


def test_events_of_a_fetch_are_in_the_order_of_the_log() -> None:
    """A tombstone waits for the record behind it, which may be of another group."""
    progress = Progress()
    progress.take(fetched(0, (0, generation(1, APP_1))))
    events = progress.take(fetched(0, (1, tombstone()), (2, generation(1, APP_1, group="other"))))
    assert [(place(event), event.group_id) for event in events] == [
        (1, "billing"),
        (2, "other"),
        (2, "other"),
    ]


class Consumer:
    """A consumer of partitions that end at 7, and has read up to 5; it is given nothing, and stops it all soon."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.sought: dict[int, int] = {}
        self.stop = stop
        self.polls = 0

    def assign(self, partitions: list[ClientPartition]) -> None:
        self.partitions = partitions

    async def beginning_offsets(self, partitions: list[ClientPartition]) -> dict[ClientPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[ClientPartition]) -> dict[ClientPartition, int]:
        return dict.fromkeys(partitions, 7)

    def seek(self, where: ClientPartition, offset: int) -> None:
        assert where in self.partitions
        self.sought[where.partition] = offset

    async def position(self, where: ClientPartition) -> int:
        return 5

    async def getmany(self, *, timeout_ms: int) -> dict[ClientPartition, list[Any]]:
        self.polls += 1
        if self.polls > 1:
            self.stop.set()
        return {}


class OneReader:
    """A cluster whose only consumer is `Consumer`, and that answers the question for the log with `found`."""

    def __init__(self, found: MetadataResponse | UnreachableError | None = None) -> None:
        self.stop = asyncio.Event()
        self.consumer = Consumer(self.stop)
        self.found = found

    @asynccontextmanager
    async def reader(self, *, resets: bool) -> AsyncIterator[Consumer]:
        assert not resets, "what was deleted must be noticed"
        yield self.consumer

    async def send_to_any(self, message: MetadataRequest) -> MetadataResponse:
        assert not message.allow_auto_topic_creation
        if isinstance(self.found, UnreachableError):
            raise self.found
        assert self.found is not None
        return self.found


def described(topic_id: bytes, partitions: int) -> MetadataResponse:
    each = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1], error_code=0
        )
        for number in range(partitions)
    ]
    topic = MetadataResponseTopic(error_code=0, name=TOPIC, topic_id=topic_id, partitions=each)
    return MetadataResponse(cluster_id="cluster", topics=[topic])


LOG_ID = b"T" * 16


def follow(found: MetadataResponse | UnreachableError) -> Consumer:
    """Follow a log of two partitions until a second poll, with a look for new ones after each."""
    log = Log(Source("cluster", LOG_ID.hex()), [ClientPartition(TOPIC, number) for number in (0, 1)])
    cluster = OneReader(found)
    follower = Follower(log, Progress(), NotingSink("unused"), look_every_s=0.0)
    running = follower.run(cast(Cluster, cluster), cluster.stop, from_latest=False, until_end=False)
    asyncio.run(running)
    return cluster.consumer


def test_partitions_that_are_added_begin_at_their_start_and_the_others_go_on() -> None:
    assert follow(described(LOG_ID, 3)).sought == {0: 5, 1: 5, 2: 0}


@pytest.mark.parametrize("found", [described(LOG_ID, 2), UnreachableError("away")], ids=["same", "away"])
def test_nothing_is_sought_where_no_partition_is_new_or_no_broker_answers(
    found: MetadataResponse | UnreachableError,
) -> None:
    assert follow(found).sought == {0: 0, 1: 0}


def test_a_log_that_was_made_again_is_not_followed() -> None:
    with pytest.raises(
        ClusterError, match="__consumer_offsets was deleted and made again: it is another log"
    ):
        follow(described(b"U" * 16, 2))


@pytest.mark.parametrize(
    ("from_latest", "reported"), [(True, {0: 3, 1: 7}), (False, {0: 3})], ids=["latest", "earliest"]
)
def test_a_partition_without_events_begins_as_it_is_told_and_the_others_go_on(
    from_latest: bool, reported: dict[int, int]
) -> None:
    """The topic has events of partition 0 alone."""
    progress = Progress(reported_from={0: 3}, reported_there={0: 1})
    log = Log(Source("cluster", "topic"), [ClientPartition(TOPIC, number) for number in (0, 1)])
    stop = asyncio.Event()
    stop.set()
    follower = Follower(log, progress, NotingSink("unused"))
    cluster = cast(Cluster, OneReader())
    asyncio.run(follower.run(cluster, stop, from_latest=from_latest, until_end=False))
    assert progress.reported_from == reported


def test_progress_is_the_same_after_a_trip_to_the_disk() -> None:
    progress = Progress(reported_from={0: 1})
    progress.take(fetched(0, (3, generation(1, APP_1)), (4, generation(2, APP_1))))
    again = Progress.load(json.loads(json.dumps(progress.dump())))
    assert again.dump() == progress.dump()
    records = fetched(0, (5, generation(4, APP_1)))
    assert evidence(again.take(records)) == evidence(progress.take(records))


@dataclass
class NotingSink:
    """Notes in a common list what it was given."""

    name: str
    notes: list[str] = field(default_factory=list)
    is_checkpoint_due: bool = False

    async def write(self, events: list[GroupEvent]) -> None:
        self.notes.append(f"{self.name}: {len(events)} events")

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        self.notes.append(f"{self.name}: {dump()}")


def test_of_several_sinks_each_is_done_before_the_next() -> None:
    notes: list[str] = []
    first, last = NotingSink("topic", notes), NotingSink("store", notes)
    both = SeveralSinks([first, last])
    asyncio.run(both.write([]))
    asyncio.run(both.checkpoint(lambda: {"at": 1}))
    assert notes == ["topic: 0 events", "store: 0 events", "topic: {'at': 1}", "store: {'at': 1}"]
    assert not both.is_checkpoint_due
    last.is_checkpoint_due = True
    assert both.is_checkpoint_due
