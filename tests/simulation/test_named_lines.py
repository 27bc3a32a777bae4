"""The lines of docs/kafka.md that one healthy broker cannot be brought to, each played in the simulation.

Here the disk does what a test tells it to: it holds, fails or hangs. A shard that is lost - in Kafka because
another broker leads it now, here because its disk failed - is read again, under the next life of its runner:
what Kafka calls an epoch. Time is virtual, and every step is watched by the witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import decode_record
from coordinator.groups.classic.states import PREPARING_REBALANCE, STABLE
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from coordinator.runtime.outages import TRY_AGAIN_MS
from coordinator.runtime.shard_runner import ShardRunner, ShardState
from coordinator.server.find_coordinator import FindCoordinator
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.records import parse_header, read_records
from storage.files import StorageError
from tests.groups.consumer import subscription
from tests.groups.driver import Topics
from tests.simulation.call import Call
from tests.simulation.disk import BROKEN, Disk, Done, SimulatedFlusher, SimulatedLog
from tests.simulation.server import COMMIT_TIMEOUT_MS, Server
from tests.simulation.simulation import quiet_logs
from tests.simulation.timeline import Origin, ProcessLoop, Timeline
from tests.simulation.witness import Witness

JOIN, SYNC, HEARTBEAT, COMMIT, DESCRIBE = 9, 5, 4, 9, 6
OLD_JOIN = 3  # Of clients that are members at once, without the id handshake.
SESSION_MS, REBALANCE_MS = 10_000, 60_000
G, OTHER = "g", "h"


class HandFlusher(SimulatedFlusher):
    """Flushes at once, unless the disk is held: then when the test says so."""

    def __init__(self, loop: ProcessLoop, disk: HandDisk) -> None:
        super().__init__(loop, disk)
        self._hand = disk

    def schedule(self, log: SimulatedLog, done: Done) -> None:
        batches = list(log.staged)

        def end(error: StorageError | None) -> None:
            if error is None:
                log.flush(batches)
            else:
                log.failure = error
            done(error)

        if self._hand.is_held:
            self._hand.waiting.append(end)
        else:
            self._loop.run_at(self._loop.timeline.now_ms, Origin.THREAD, lambda: end(None))

    def close(self) -> None:
        """Wait for what is under way."""
        while self._hand.waiting:
            self._hand.waiting.pop(0)(None)


class HandDisk(Disk):
    """`waiting` are the flushes under way while it is held."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.is_sound = True
        self.is_held = False
        self.loading_ms = 1
        self.waiting: list[Done] = []

    def new_flusher(self, loop: ProcessLoop) -> SimulatedFlusher:
        return HandFlusher(loop, self)

    def load_ms(self) -> int:
        return self.loading_ms


class Stage:
    """One server of one shard, on which a test plays by hand."""

    def __init__(self, group_max_size: int = 100) -> None:
        self.timeline = Timeline()
        self.witness = Witness()
        self.disk = HandDisk()
        settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=group_max_size)
        topics = Topics(orders=4, clicks=2)
        self.server = Server(
            self.timeline, Random(0), self.disk, settings, topics, 1, [G, OTHER, "solo"], self.witness
        )
        self.server.start()
        self.run(1)

    @property
    def runner(self) -> ShardRunner[Any]:
        return self.server.runners[0]

    def group(self, group_id: str = G) -> Group:
        assert self.runner.shard is not None
        group: Group = self.runner.shard.groups[group_id]
        return group

    def run(self, for_ms: int = 10) -> None:
        """Let time pass."""
        reached: list[bool] = []
        self.timeline.after(for_ms, lambda: reached.append(True))
        while not reached:
            self.timeline.step()
            self.witness.look()
            assert not self.witness.violations

    def send(self, request: Any, version: int, *, runs: bool = True, then: Any = lambda _: None) -> Call:
        """Have `request` come to the server; `then` is told the answer. Unless it `runs`, nothing happens yet."""
        call = Call(request, version, "client", self.witness, then, lambda: None)
        self.server.deliver(call)
        if runs:
            self.run()
        return call

    def ask(self, request: Any, version: int) -> Any:
        """The answer, which must be there at once."""
        answer = self.send(request, version).answer
        assert answer is not None
        return answer

    # What clients say.

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        group_id: str = G,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Call:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
        )
        return self.send(request, OLD_JOIN if instance_id is None else JOIN)

    def sync(self, joined: Any, group_id: str = G, instance_id: str | None = None) -> Call:
        """The leader gives everybody their own id."""
        given = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"")
            for member in joined.members
        ]
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )
        return self.send(request, SYNC)

    def heartbeat(self, joined: Any) -> ErrorCode:
        request = HeartbeatRequest(group_id=G, generation_id=joined.generation_id, member_id=joined.member_id)
        return ErrorCode(self.ask(request, HEARTBEAT).error_code)

    def commit(
        self,
        offset: int,
        group_id: str = OTHER,
        *,
        runs: bool = True,
        then: Callable[[int], None] = lambda _: None,
    ) -> Call:
        """Of a consumer without a group; `then` is told `offset` when it is answered."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        request = OffsetCommitRequest(group_id=group_id, topics=[topic])
        return self.send(request, COMMIT, runs=runs, then=lambda _: then(offset))

    def described(self, group_id: str = G) -> Any:
        return self.ask(DescribeGroupsRequest(groups=[group_id]), DESCRIBE).groups[0]

    def joined(self, count: int, group_id: str = G) -> list[Any]:
        """Bring a group of one or two to CompletingRebalance; the answers to their joins, the leader's first."""
        leader = self.join(group_id=group_id)
        if count == 1:
            return [leader.answer]
        follower = self.join(group_id=group_id)
        leader = self.join(leader.answer.member_id, group_id=group_id)
        return [leader.answer, follower.answer]

    def stable(self, instance_id: str | None, rebalance_ms: int = REBALANCE_MS) -> list[Any]:
        """Bring a group of one to Stable; the answer to its join."""
        joined = self.join(instance_id=instance_id, rebalance_ms=rebalance_ms).answer
        assert self.sync(joined, instance_id=instance_id).answer.error_code == ErrorCode.NONE
        assert self.group().state is STABLE
        return [joined]

    # What the disk does.

    def hold_disk(self) -> None:
        self.disk.is_held = True

    def release_disk(self, error: StorageError | None = None) -> None:
        """What was under way ends, and the disk is as quick as before."""
        self.disk.is_held = False
        waiting, self.disk.waiting = self.disk.waiting, []
        for end in waiting:
            end(error)
        self.run()


def committed(call: Call) -> ErrorCode:
    return ErrorCode(call.answer.topics[0].partitions[0].error_code)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with quiet_logs():
        yield Stage()


def test_3_27_a_new_member_parked_in_join_for_five_minutes_is_removed(stage: Stage) -> None:
    (leader,) = stage.stable(None, rebalance_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 2)
    newcomer = stage.join()
    parked_since_ms = stage.timeline.now_ms
    while newcomer.answer is None:  # The leader lives, and takes its time.
        assert stage.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        stage.run(3_000)
    assert newcomer.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    waited_ms = stage.timeline.now_ms - parked_since_ms
    assert NEW_MEMBER_JOIN_TIMEOUT_MS <= waited_ms < NEW_MEMBER_JOIN_TIMEOUT_MS + 5_000
    assert stage.group().members.keys() == {leader.member_id}


def test_3_38_a_new_id_that_cannot_be_stored_leaves_the_old_one_as_it_was(stage: Stage) -> None:
    (before,) = stage.stable("one")
    stage.hold_disk()
    returning = stage.join(instance_id="one")
    assert [returning.answer] == [None], "not told before it is stored"
    stage.run(COMMIT_TIMEOUT_MS)
    assert (returning.answer.error_code, returning.answer.member_id) == (15, "")
    assert stage.heartbeat(before) is ErrorCode.NONE


def test_3_38_the_old_id_is_back_when_the_disk_failed(stage: Stage) -> None:
    (before,) = stage.stable("one")
    stage.hold_disk()
    returning = stage.join(instance_id="one")
    stage.release_disk(BROKEN)
    assert returning.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert stage.group().static_members == {"one": before.member_id}
    assert stage.heartbeat(before) is ErrorCode.NONE


def test_3_49_an_assignment_that_is_not_stored_is_nobodys(stage: Stage) -> None:
    leader, follower = stage.joined(2)
    stage.hold_disk()
    syncs = [stage.sync(follower), stage.sync(leader)]
    stage.run(COMMIT_TIMEOUT_MS)
    assert [(call.answer.error_code, call.answer.assignment) for call in syncs] == [(15, b"")] * 2
    assert stage.group().state is PREPARING_REBALANCE


def test_3_50_the_store_of_a_generation_that_has_passed_changes_nothing(stage: Stage) -> None:
    (leader,) = stage.joined(1)
    stage.hold_disk()
    storing = stage.sync(leader)
    newcomer = stage.join()
    assert storing.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    stage.release_disk()
    assert stage.group().state is PREPARING_REBALANCE
    assert newcomer.answer is None


def test_3_69_while_loading_heartbeats_are_fine_syncs_join_again_and_all_else_waits(stage: Stage) -> None:
    """SyncGroup is the one difference from Kafka 4: Java's classic client takes 14 there for fatal."""
    (leader,) = stage.stable(None)
    stage.disk.loading_ms = 1_000
    stage.server.crash()
    stage.server.start()
    assert stage.heartbeat(leader) is ErrorCode.NONE
    assert stage.sync(leader).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join(leader.member_id).answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed(stage.commit(1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.described().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.run(1_000)
    assert stage.heartbeat(leader) is ErrorCode.NONE
    assert stage.described().group_state == "Stable"


def test_3_70_whoever_waits_on_a_shard_that_is_lost_hears_16(stage: Stage) -> None:
    (leader,) = stage.stable(None)
    joining = stage.join()  # The leader has yet to join again.
    other_leader, other_follower = stage.joined(2, OTHER)
    syncing = stage.sync(other_follower, OTHER)
    stage.hold_disk()
    storing = stage.sync(other_leader, OTHER)
    writing = stage.commit(1, "solo")
    stage.disk.loading_ms = 1_000
    stage.release_disk(BROKEN)
    told = [call.answer.error_code for call in (joining, syncing, storing)] + [committed(writing)]
    assert told == [ErrorCode.NOT_COORDINATOR] * 4
    assert stage.runner.shard is None, "groups, sessions and rebalances are gone with it"
    stage.run(SESSION_MS)
    assert stage.heartbeat(leader) is ErrorCode.NONE, "a full session from the load on, not from before"


def test_3_71_a_shard_that_cannot_be_read_answers_16_until_it_can(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever looks for its coordinator is sent here all the while: there is no other."""
    (leader,) = stage.stable(None)
    log = stage.server.logs[0]
    with monkeypatch.context() as broken:
        broken.setattr(log, "batches", _unreadable)
        stage.server.crash()
        stage.server.start()
        stage.run()
        assert stage.runner.state is ShardState.FAILED
        assert stage.heartbeat(leader) is ErrorCode.NOT_COORDINATOR
        assert stage.join().answer.error_code == ErrorCode.NOT_COORDINATOR
        assert stage.described().error_code == ErrorCode.NOT_COORDINATOR
        assert coordinator_of(G) == (7, "localhost", 9092)
    stage.run(TRY_AGAIN_MS)
    assert stage.heartbeat(leader) is ErrorCode.NONE


def test_3_72_news_of_a_life_that_has_ended_is_ignored(stage: Stage) -> None:
    """A flush, and timers, that belong to the shard as it was before it was lost and read again."""
    (leader,) = stage.stable(None)
    stage.hold_disk()
    stage.commit(1)
    (stale,) = stage.disk.waiting
    stage.disk.waiting.clear()
    stage.runner.durable_log.fail(BROKEN)
    stage.run()
    later = stage.commit(2)
    stale(None)
    stage.run()
    assert later.answer is None, "the flush that ended was not its own"
    stage.run(SESSION_MS - 1_000)
    assert leader.member_id in stage.group().members, "its session began anew with the load"
    stage.release_disk()


def test_3_73_a_coordinator_that_stops_takes_nothing_on_and_fails_who_is_parked(stage: Stage) -> None:
    (leader,) = stage.stable(None)
    joining = stage.join()
    stage.hold_disk()
    writing = stage.commit(1)
    assert stage.server.runtime is not None
    stage.server.runtime.stop()
    stage.run()
    assert joining.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(writing) is ErrorCode.NONE, "what was appended is flushed, and told"
    assert stage.heartbeat(leader) is ErrorCode.NOT_COORDINATOR
    assert stage.join().answer.error_code == ErrorCode.NOT_COORDINATOR


def test_3_85_two_groups_in_a_batch_that_fails_are_both_as_they_were(stage: Stage) -> None:
    before = [stage.commit(1, G), stage.commit(1, OTHER)]
    stage.hold_disk()
    together = [stage.commit(2, G, runs=False), stage.commit(2, OTHER, runs=False)]
    stage.run()
    (batch,) = stage.server.logs[0].staged
    assert parse_header(batch).record_count == 2
    stage.release_disk(BROKEN)
    assert [committed(call) for call in before + together] == [0, 0, 16, 16]
    assert stage.runner.shard is not None
    kept = [stage.runner.shard.offsets.get(group_id, "orders", 0) for group_id in (G, OTHER)]
    assert [offset and offset.offset for offset in kept] == [1, 1]


def test_3_86_answers_leave_in_the_order_of_the_log(stage: Stage) -> None:
    """Whoever asked, for whichever group, and however the commits fell into batches."""
    answered: list[int] = []
    stage.hold_disk()
    for offset in range(20):
        group_id = Random(offset).choice((G, OTHER, "solo"))
        stage.commit(offset, group_id, runs=offset % 3 == 0, then=answered.append)
    while stage.disk.waiting:
        stage.release_disk()
    assert answered == list(range(20))
    log = stage.server.logs[0].durable
    in_log = [decode_record(r.key, r.value) for data in log for r in read_records(data, parse_header(data))]
    values = [record.value for record in in_log if record is not None]
    assert [value.offset for value in values if value is not None] == answered
    assert None not in values


def test_3_88_a_write_that_takes_longer_than_its_timeout_is_answered_15(stage: Stage) -> None:
    stage.hold_disk()
    writing = stage.commit(1)
    stage.run(COMMIT_TIMEOUT_MS - 100)
    assert writing.answer is None
    stage.run(100)
    assert committed(writing) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def _unreadable(*_: int) -> Iterator[Any]:
    raise BROKEN


def coordinator_of(group_id: str) -> tuple[int, str, int]:
    """Where FindCoordinator sends a client."""
    answers: list[Any] = []
    asked = SimpleNamespace(api_version=4, listener="PLAINTEXT", reply=answers.append)
    find = FindCoordinator(7, lambda _: ("localhost", 9092))
    find(FindCoordinatorRequest(coordinator_keys=[group_id]), asked)  # type: ignore[arg-type]
    (found,) = answers[0].coordinators
    return found.node_id, found.host, found.port
