"""The topics of the coordinator's shards: one log, which a shard's runner owns and a partition only shows."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.effects import RequestContext
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.shard_states import ACTIVE, LOADING
from coordinator.topics.names import GROUP_METADATA_TOPIC
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.runtime_world import Asker
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from storage.files import StorageError
from storage.log.durable_log import DurableLog
from storage.log.log_states import ACTIVE as LOG_ACTIVE
from storage.log.log_states import PAUSED, RECOVERING
from tests.server.asking import TOPIC, commit
from tests.server.crash_world import CrashWorld
from tests.topics.requests import fetch, fetch_request, partitions_of, produce_request
from tests.topics.world import batch

FULL = StorageError("write", Path("__consumer_offsets-0"), "No space left on device", errno.ENOSPC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CrashWorld]:
    with CrashWorld.opened(tmp_path, FaultyFiles(tmp_path)) as world:
        world.create_topic("t")
        world.commit("g", 1)
        yield world


@pytest.fixture
def runner(world: CrashWorld) -> GroupRunner:
    """The runner of the group's shard."""
    (runner,) = [each for each in world.runners if each.log.next_offset]
    return runner


def log_of(world: CrashWorld, runner: GroupRunner) -> DurableLog:
    """The log as its partition has it."""
    partition = world.registry.partition(GROUP_METADATA_TOPIC, runner.partition)
    assert partition is not None
    return partition.durable_log


def test_the_log_of_a_shard_is_recovered_by_its_shard(world: CrashWorld, runner: GroupRunner) -> None:
    """To cut it back and serve on would leave the shard with what the log has lost."""
    log = log_of(world, runner)
    assert log is runner.durable_log
    assert log.owner is runner
    log.fail(ZeroDivisionError("ours"))
    assert (runner.state, log.state, len(world.queue)) == (LOADING, RECOVERING, 1)
    world.queue.popleft()()
    assert (runner.state, log.state) == (ACTIVE, LOG_ACTIVE)


def test_what_a_shard_has_made_durable_wakes_readers_of_its_topic(
    world: CrashWorld, runner: GroupRunner
) -> None:
    wanted = (GROUP_METADATA_TOPIC, runner.partition, 1)
    parked = world.start(fetch_request(wanted, max_wait_ms=500, isolation_level=1), 12)
    world.settle()
    assert not parked.is_answered
    world.commit("g", 2)
    (answer,) = partitions_of(parked.answer)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 2, 2)


def begin_commit(world: CrashWorld, runner: GroupRunner) -> None:
    """Commit once more, until it counts and is in no segment yet."""
    end = runner.log.durable_offset
    world.create_topic(TOPIC)
    runner.request(commit(2), RequestContext(Asker(), 8, "client", "/127.0.0.1"))
    world.end_turn()
    while runner.log.durable_offset == end:
        world.queue.popleft()()
    assert runner.log.written_offset == end


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_fetch_between_a_frame_and_the_segment_is_answered_when_that_is_written(
    world: CrashWorld, runner: GroupRunner, isolation_level: int
) -> None:
    """The commit counts already, so that the end does not move any more."""
    begin_commit(world, runner)
    wanted = (GROUP_METADATA_TOPIC, runner.partition, 1)
    parked = world.start(fetch_request(wanted, max_wait_ms=500, isolation_level=isolation_level), 12)
    assert not parked.is_answered
    world.settle()
    (answer,) = partitions_of(parked.answer)
    assert answer.records


def test_a_commit_is_wanted_in_the_segment_at_once_while_a_fetch_waits_for_it(
    world: CrashWorld, runner: GroupRunner
) -> None:
    """Otherwise it has time: to write one batch takes as long as to write many."""
    wanted: list[int] = []
    world.logs.journal.want_written = lambda: wanted.append(runner.log.durable_offset)
    world.commit("g", 2)
    assert wanted == []
    parked = world.start(fetch_request((GROUP_METADATA_TOPIC, runner.partition, 2), max_wait_ms=500), 12)
    assert (parked.is_answered, wanted) == (False, [])
    world.commit("g", 3)
    assert (parked.is_answered, wanted) == (True, [3])
    world.commit("g", 4)
    assert wanted == [3]


@pytest.mark.parametrize("max_wait_ms", [0, 500])
def test_a_fetch_of_a_commit_that_is_in_no_segment_yet_wants_it_there(
    world: CrashWorld, runner: GroupRunner, max_wait_ms: int
) -> None:
    begin_commit(world, runner)
    wanted: list[int] = []
    world.logs.journal.want_written = lambda: wanted.append(runner.log.durable_offset)
    world.start(fetch_request((GROUP_METADATA_TOPIC, runner.partition, 1), max_wait_ms=max_wait_ms), 12)
    assert wanted


def test_a_log_that_goes_to_another_node_is_wanted_in_its_segments_at_once(
    world: CrashWorld, runner: GroupRunner
) -> None:
    begin_commit(world, runner)
    wanted: list[int] = []
    world.logs.journal.want_written = lambda: wanted.append(runner.log.durable_offset)
    runner.release()
    runner.durable_log.when_idle(lambda: None)
    assert wanted


def test_a_shards_topic_is_read_while_its_log_is_paused(world: CrashWorld, runner: GroupRunner) -> None:
    runner.durable_log.fail(FULL)
    world.settle()
    assert (runner.durable_log.state, runner.may_write) == (PAUSED, False)
    answer = fetch(world, GROUP_METADATA_TOPIC, partition=runner.partition, isolation_level=1)
    assert (answer.error_code, answer.high_watermark) == (0, 1)
    refused = world.start(produce_request(batch(b"v"), GROUP_METADATA_TOPIC, runner.partition), 9)
    assert refused.answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    world.try_again()
    assert runner.may_write


def test_a_shards_log_serves_on_where_its_producers_could_not_be_read_for_a_reader(
    world: CrashWorld, runner: GroupRunner
) -> None:
    partition = world.registry.partition(GROUP_METADATA_TOPIC, runner.partition)
    assert partition is not None
    assert isinstance(world.files, FaultyFiles)
    runner.log.producers.state = None
    world.files.read_fault = lambda operation: OSError(errno.EIO, "Input/output error")
    known: list[bool] = []
    partition.when_producers_known(lambda: known.append(partition.producers is not None))
    world.settle()
    assert known == [False]
    assert (runner.state, runner.durable_log.state) == (ACTIVE, LOG_ACTIVE)


def test_what_the_admin_client_writes_stands_behind_what_the_shard_has_gathered(
    world: CrashWorld, runner: GroupRunner
) -> None:
    """The shard has replayed its records at the offsets that they were promised."""
    world.create_topic(TOPIC)
    context = RequestContext(Asker(), 8, "client", "/127.0.0.1")
    runner.request(commit(2), context)
    position = runner.position
    request = produce_request(batch(b"v"), GROUP_METADATA_TOPIC, runner.partition)
    answer = world.ask(request, 9, client_id="__admin_client").responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, position)
    ends = [each.last_offset for each, _ in runner.log.batches(0)]
    assert ends == [0, position - 1, position]


def test_a_shard_of_another_node_is_neither_read_nor_written_here(
    world: CrashWorld, runner: GroupRunner
) -> None:
    """What is on this disk is not what the other has written since."""
    index = runner.partition
    runner.release()
    read = fetch(world, GROUP_METADATA_TOPIC, index)
    assert (read.error_code, read.records or b"") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    end = ListOffsetsPartition(partition_index=index, timestamp=-1)
    listing = ListOffsetsRequest(topics=[ListOffsetsTopic(name=GROUP_METADATA_TOPIC, partitions=[end])])
    listed = world.ask(listing, 7)
    assert listed.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    asked = OffsetForLeaderPartition(partition=index, leader_epoch=0)
    of_topic = OffsetForLeaderTopic(topic=GROUP_METADATA_TOPIC, partitions=[asked])
    epochs = world.ask(OffsetForLeaderEpochRequest(topics=[of_topic]), 4)
    assert epochs.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = world.registry.partition(GROUP_METADATA_TOPIC, index)
    assert partition is not None
    assert partition.append_error is ErrorCode.NOT_LEADER_OR_FOLLOWER
