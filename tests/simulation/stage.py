"""A server of one shard on which a test plays by hand, watched by the witness; its disk is in hand as well."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import STABLE
from coordinator.groups.group_settings import GroupSettings
from coordinator.runtime.shard_runner import ShardRunner
from harness.doubles.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from storage.files import OnFlushed, StorageError
from tests.groups.consumer import subscription
from tests.simulation.call import Call
from tests.simulation.disk import Disk, SimulatedFlusher, SimulatedLog
from tests.simulation.server import Server
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

    def schedule(self, log: SimulatedLog, done: OnFlushed) -> None:
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
        self.waiting: list[OnFlushed] = []

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
        """Have `request` come to the server; `then` gets the answer. Unless it `runs`, nothing happens yet."""
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
        """The leader assigns every member an empty share."""
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
        """Of a consumer without a group; `then` is called with `offset` when it is answered."""
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
