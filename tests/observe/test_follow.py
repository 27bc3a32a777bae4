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
from muster.cluster import Cluster
from muster.observe.follow import TOPIC, Follower, Log, Progress
from muster.observe.sinks import Reported, SeveralSinks
from muster.observe.store import Source
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
    """Two partitions that end at 7, as a consumer has them; there is nothing to read."""

    def assign(self, partitions: list[ClientPartition]) -> None:
        self.partitions = partitions

    async def beginning_offsets(self, partitions: list[ClientPartition]) -> dict[ClientPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: list[ClientPartition]) -> dict[ClientPartition, int]:
        return dict.fromkeys(partitions, 7)

    def seek(self, where: ClientPartition, offset: int) -> None:
        assert where in self.partitions


class OneReader:
    """A cluster whose only consumer is `Consumer`."""

    @asynccontextmanager
    async def reader(self, *, resets: bool) -> AsyncIterator[Consumer]:
        assert not resets, "what was deleted must be noticed"
        yield Consumer()


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
