"""A full disk: writes are refused up front, everything else goes on, and writes are taken again by itself."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.group_shards import MAY_WRITE
from coordinator.groups.shard import Shard
from coordinator.groups.states import EMPTY, STABLE
from coordinator.groups.timers import OffsetExpiryTimer
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from storage.files import StorageError
from tests.daemon import MusterDaemon
from tests.processes import wait_until
from tests.server.shard_world import ShardWorld
from tests.server.test_durability import Daemon
from tests.storage.faulty_files import FaultyFiles
from tests.topics.world import batch
from tests.wire import WireClient

FULL = StorageError("write", Path("__consumer_offsets-0"), "No space left on device", errno.ENOSPC)
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
TOPIC, GROUP = "orders", "g"
SESSION_MS = 10_000
PATIENCE_S = 30


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=GROUP, topics=[topic])


def fetch() -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])


def join(member_id: str = "", group_id: str = "m") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync(joined: Any) -> SyncGroupRequest:
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    return SyncGroupRequest(
        group_id="m",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[mine] if joined.leader == joined.member_id else [],
    )


def leave(member_id: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="m", members=[MemberIdentity(member_id=member_id)])


def beat(joined: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="m", generation_id=joined.generation_id, member_id=joined.member_id)


def committed(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def fetched(answer: Any) -> int:
    assert answer.groups[0].error_code == 0, answer
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


# One shard, in memory.


@pytest.fixture
def world() -> ShardWorld:
    """A shard with one commit and one group of one member, whose disk has just been found full."""
    world = ShardWorld()
    assert committed(world.answer(commit(1), 8)) == 0
    world.joined = world.answer(join(), 3)  # type: ignore[attr-defined]
    world.answer(sync(world.joined), 4)  # type: ignore[attr-defined]
    asker = world.ask(commit(2), 8)
    world.end_turn()
    world.end_flush(FULL)
    assert committed(asker.answer) == UNAVAILABLE
    assert (world.reloads, world.no_room) == (1, [FULL])
    world.load()
    return world


def shard_of(world: ShardWorld) -> Shard:
    assert world.runner.shard is not None
    return world.runner.shard


def test_writes_are_refused_up_front_without_a_trace(world: ShardWorld) -> None:
    """No state applied, nothing gathered, no flush, no reload: however often a client tries."""
    joined = world.joined  # type: ignore[attr-defined]
    shard = shard_of(world)
    before = (dict(shard.stored), list(shard.groups), len(world.history))
    for _ in range(100):
        assert committed(world.ask(commit(3), 8).answer) == UNAVAILABLE
        assert world.ask(join(group_id="new"), 3).answer.error_code == UNAVAILABLE
        assert world.ask(join(joined.member_id), 3).answer.error_code == UNAVAILABLE
        assert world.ask(leave(joined.member_id), 4).answer.error_code == UNAVAILABLE
        deleted = world.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2).answer
        assert deleted.results[0].error_code == UNAVAILABLE
        assert world.ask(OffsetDeleteRequest(group_id=GROUP, topics=[]), 0).answer.error_code == UNAVAILABLE
    world.end_turn()
    assert (dict(shard.stored), list(shard.groups), len(world.history)) == before
    assert (world.reloads, world.flushes, shard_of(world)) == (1, [], shard)


def test_reads_heartbeats_and_collected_assignments_go_on(world: ShardWorld) -> None:
    joined = world.joined  # type: ignore[attr-defined]
    assert fetched(world.ask(fetch(), 8).answer) == 1
    assert world.ask(beat(joined), 4).answer.error_code == 0
    assert world.ask(sync(joined), 4).answer.assignment == b"all"
    (described,) = world.ask(DescribeGroupsRequest(groups=["m"]), 5).answer.groups
    assert described.group_state == STABLE.value
    assert {group.group_id for group in world.ask(ListGroupsRequest(), 4).answer.groups} == {GROUP, "m"}


def test_every_request_that_is_let_through_writes_nothing(world: ShardWorld) -> None:
    handled = set(shard_of(world)._handlers)
    assert handled - MAY_WRITE == {
        HeartbeatRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
        ListGroupsRequest,
        DescribeGroupsRequest,
    }


def test_with_room_again_writes_are_taken_and_the_state_is_the_same(world: ShardWorld) -> None:
    shard = shard_of(world)
    world.runner.try_again()
    assert shard_of(world) is shard, "nothing is read again: nothing has changed"
    assert committed(world.answer(commit(3), 8)) == 0
    assert fetched(world.answer(fetch(), 8)) == 3


def test_who_could_not_be_heard_gets_a_full_session(world: ShardWorld) -> None:
    """A member that wanted to join again was refused: it is not to be expired for that."""
    world.time_ms += 5 * SESSION_MS
    world.fire_due()
    assert shard_of(world).groups["m"].state is STABLE, "timers wait"
    world.runner.try_again()
    assert shard_of(world).groups["m"].state is STABLE
    world.time_ms += SESSION_MS + 1
    world.fire_due()
    assert shard_of(world).groups["m"].state is EMPTY, "the deadline that came meanwhile was not lost"
    world.end_turn()
    world.end_flush()
    world.load()
    assert shard_of(world).groups["m"].state is EMPTY


def test_the_sweep_of_offsets_waits_and_is_not_forgotten(world: ShardWorld) -> None:
    def rounds_to_come() -> int:
        return sum(isinstance(key[2], OffsetExpiryTimer) and at_ms > world.time_ms for key, at_ms in timers())

    def timers() -> list[tuple[Any, int]]:
        return list(world.timers.items())

    world.time_ms = max(world.timers.values())
    world.fire_due()
    assert rounds_to_come() == 0
    world.runner.try_again()
    assert rounds_to_come() == 1


def test_a_topic_deleted_meanwhile_takes_its_offsets_along(world: ShardWorld) -> None:
    world.runner.topic_deleted(TOPIC, bytes(16))
    assert fetched(world.answer(fetch(), 8)) == 1
    world.runner.try_again()
    assert fetched(world.answer(fetch(), 8)) == -1


def test_a_disk_without_room_to_cut_back_is_read_and_cut_when_there_is(world: ShardWorld) -> None:
    world.runner.try_again()
    asker = world.ask(commit(5), 8)
    world.end_turn()
    fail_back = world.log.fail_back

    def full() -> None:
        fail_back()
        world.log.failure = FULL
        raise FULL

    world.log.fail_back = full  # type: ignore[method-assign]
    world.log.is_open = True  # type: ignore[attr-defined]
    world.end_flush(FULL)
    assert committed(asker.answer) == UNAVAILABLE
    world.load()
    assert fetched(world.ask(fetch(), 8).answer) == 1
    world.log.fail_back = fail_back  # type: ignore[method-assign]
    world.runner.try_again()
    world.load()
    assert committed(world.answer(commit(6), 8)) == 0


# The whole daemon, on the double and on a real disk.


def new_topic() -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)])


def produce(client: WireClient, value: bytes = b"v") -> int:
    data = PartitionProduceData(index=0, records=batch(value))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    return int(client.ask(request, 9).responses[0].partition_responses[0].error_code)


def joined_member(client: WireClient) -> Any:
    joined = client.ask(join(), 3)
    assert client.ask(sync(joined), 4).error_code == 0
    return joined


def serves_all_but_writes(client: WireClient, joined: Any, last_committed: int) -> None:
    """What a client of a daemon sees whose disk is full."""
    for _ in range(50):
        assert committed(client.ask(commit(1_000_000), 8)) == UNAVAILABLE
        assert client.ask(beat(joined), 4).error_code == 0
    assert fetched(client.ask(fetch(), 8)) == last_committed
    assert produce(client) == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.ask(sync(joined), 4).assignment == b"all"


def is_committed(client: WireClient, offset: int) -> bool:
    return committed(client.ask(commit(offset), 8)) == 0


def fill_up(client: WireClient, joined: Any) -> int:
    """Commit, produce and (a full disk) be refused; the last offset that was acknowledged."""

    def settled() -> bool:
        fetching = client.ask(fetch(), 8).groups[0].error_code
        return fetching == 0 and client.ask(beat(joined), 4).error_code == 0

    offset = 1
    while is_committed(client, offset + 1):
        offset += 1
        assert offset < 10_000, "the disk has no room"
    while produce(client) == 0:
        pass
    wait_until(settled, "the shard has read what is durable", PATIENCE_S)
    return offset


def test_a_daemon_whose_disk_is_full_serves_and_writes_again_when_there_is_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = FaultyFiles(tmp_path)
    with Daemon(tmp_path, files) as daemon, WireClient(daemon.bootstrap) as client:
        assert client.ask(new_topic(), 5).topics[0].error_code == 0
        joined = joined_member(client)
        assert is_committed(client, 1)
        assert produce(client) == 0
        files.run_out_of_room(1000)
        last = fill_up(client, joined)
        operations = len(files.operations)
        serves_all_but_writes(client, joined, last)
        attempts = [str(op) for op in files.operations[operations:] if "muster-room" not in str(op)]
        assert attempts == [], "a refusal costs the disk nothing"
        files.fault = None
        wait_until(lambda: is_committed(client, 77), "writes are taken again", PATIENCE_S)
        assert fetched(client.ask(fetch(), 8)) == 77
        wait_until(lambda: produce(client) == 0, "records are taken again", PATIENCE_S)
        assert client.ask(beat(joined), 4).error_code == 0
    said = capfd.readouterr()
    lines = (said.out + said.err).splitlines()
    assert len([line for line in lines if "no room on the disk" in line]) == 1
    assert len([line for line in lines if "room on the disk again" in line]) >= 1
    assert not (tmp_path / ".muster-room").exists()


class SmallDisk(MusterDaemon):
    """A daemon whose data directory is a tmpfs of a few MiB, mounted for it alone."""

    def _command(self) -> list[str]:
        mount = f'mount -t tmpfs -o size=4m none "{self.log_dir}" && exec "$@"'
        return ["unshare", "-m", "sh", "-c", mount, "sh", *super()._command()]

    def inside(self, name: str) -> Path:
        """A file in its data directory, as seen from outside."""
        return Path(f"/proc/{self.pid}/root{self.log_dir}/{name}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try_it = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(try_it, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    few = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    daemon = SmallDisk(tmp_path, few)
    daemon.log_dir.mkdir()
    with daemon:
        yield daemon


def use_up(ballast: Path) -> None:
    """Write to `ballast` until there is no room."""
    file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    while write_page(file):
        pass
    os.close(file)


def write_page(file: int) -> bool:
    try:
        return os.write(file, bytes(4096)) > 0
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017 - no test of what raises.
        return False


def test_a_real_disk_that_is_full(small_disk: SmallDisk) -> None:
    """The same on a real file system, whose last pages are filled by somebody else."""
    with WireClient(small_disk.bootstrap) as client:
        assert client.ask(new_topic(), 5).topics[0].error_code == 0
        joined = joined_member(client)
        assert is_committed(client, 1)
        assert produce(client) == 0
        ballast = small_disk.inside("ballast")
        use_up(ballast)
        last = fill_up(client, joined)
        serves_all_but_writes(client, joined, last)
        os.unlink(ballast)
        wait_until(lambda: is_committed(client, 77), "writes are taken again", PATIENCE_S)
        wait_until(lambda: produce(client) == 0, "records are taken again", PATIENCE_S)
        assert client.ask(beat(joined), 4).error_code == 0
    assert small_disk.terminate() == 0
    log = small_disk.log_path.read_text()
    assert log.count("no room on the disk") == 1
    assert "Traceback" not in log
