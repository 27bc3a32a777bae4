"""Which shards a stop leaves snapshots of, and that a shard made of one is the shard that its log says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.runtime.shard_states import CLOSED
from coordinator.runtime.snapshots import MIN_LOG_BYTES, write_snapshots
from coordinator.shard.shard import Shard
from harness.doubles.runtime_world import BROKEN
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.server.joining import join, sync
from tests.server.shard_world import ShardWorld
from tests.test_shard_state import fields


def commit(offset: int, note: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=offset, committed_metadata=note
    )
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )


def busy() -> ShardWorld:
    """A shard with a member, offsets and metadata, all of it durable."""
    world = ShardWorld()
    joined = world.answer(join(), 3)
    world.answer(sync(joined), 3)
    world.answer(commit(5), 8)
    world.answer(commit(7, "note"), 8)
    return world


def stopped(world: ShardWorld) -> ShardWorld:
    world.runner.stop()
    world.end_turn()
    return world


def written(world: ShardWorld, min_log_bytes: int = 0) -> int:
    count = write_snapshots([world.runner], min_log_bytes)
    assert (world.log.snapshot is not None) == bool(count)
    return count


def shard_of(world: ShardWorld) -> Shard:
    assert world.runner.shard is not None
    return world.runner.shard


def test_a_shard_made_of_a_snapshot_is_what_its_log_says() -> None:
    world = stopped(busy())
    assert written(world) == 1
    kept, world.log.stored = world.log.stored, []  # Nothing is left to replay.
    world.restart()
    restored = shard_of(world)
    world.log.stored = kept
    world.restart()
    assert fields(restored) == fields(shard_of(world))
    assert [group.group_id for group in restored.stored.values()] == ["m"]
    assert restored.groups["m"].members.keys() == shard_of(world).groups["m"].members.keys() != set()


def test_records_that_are_flushed_by_the_stop_are_in_it() -> None:
    world = busy()
    asker = world.ask(commit(9), 8)
    stopped(world)
    world.end_flush()
    assert asker.answer.topics[0].partitions[0].error_code == 0
    assert written(world) == 1
    world.log.stored = []
    world.restart()
    found = shard_of(world).offsets.get("g", "orders", 1)
    assert found is not None
    assert found.offset == 9


def test_a_shard_whose_last_records_are_not_durable_leaves_none() -> None:
    world = busy()
    world.ask(commit(9), 8)
    stopped(world)
    assert written(world) == 0  # The flush is under way.
    world.end_flush()
    assert written(world) == 1


def test_a_shard_whose_log_fails_in_the_stop_leaves_none() -> None:
    """Its clients were told that the commit failed; though the log should take records again."""
    world = busy()
    asker = world.ask(commit(9), 8)
    stopped(world)
    world.end_flush(BROKEN)
    assert asker.answer.topics[0].partitions[0].error_code != 0
    assert written(world) == 0
    world.log.fail_back()
    assert written(world) == 0


def test_a_shard_that_was_not_loaded_leaves_none() -> None:
    world = busy()
    world.durable_log.fail(BROKEN)
    assert written(stopped(world)) == 0
    assert world.runner.state is CLOSED


def test_a_shard_that_was_not_stopped_leaves_none() -> None:
    """A start that ends half-way closes its logs as well."""
    assert written(busy()) == 0


def test_a_short_log_is_replayed_as_quickly() -> None:
    world = stopped(busy())
    assert written(world, MIN_LOG_BYTES) == written(world, world.log.size_bytes + 1) == 0
    assert written(world, world.log.size_bytes) == 1


def test_an_empty_log_needs_none() -> None:
    assert written(stopped(ShardWorld())) == 0


def test_a_snapshot_that_cannot_be_written_keeps_no_other_from_being() -> None:
    first, second = stopped(busy()), stopped(busy())
    first.log.snapshot_failure = BROKEN
    assert write_snapshots([first.runner, second.runner], 0) == 1
    assert second.log.snapshot is not None


def test_a_bug_in_one_shards_snapshot_keeps_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = stopped(busy()), stopped(busy())
    kind = first.runner.kind
    assert kind.snapshots is not None

    def bug(shard: object) -> list[bytes]:
        raise ZeroDivisionError

    monkeypatch.setattr(first.runner, "kind", replace(kind, snapshots=replace(kind.snapshots, encode=bug)))
    assert write_snapshots([first.runner, second.runner], 0) == 1
    assert second.log.snapshot is not None
