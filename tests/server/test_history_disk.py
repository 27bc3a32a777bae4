"""The history holds nothing up: its disk is stuck, and every client is answered all the same."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from coordinator.effects import GroupEvent
from harness.daemon_thread import DEADLINE_S, Daemon
from harness.doubles.faulty_files import FaultyFiles, Operation
from harness.processes import wait_until
from harness.wire import WireClient
from muster.cluster import connected
from muster.groups.history import read_history
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest

GROUP = "group"
REBALANCES = 20


class StuckHistory:
    """A file layer's fault that lets every write of the history's log wait until `release`."""

    def __init__(self) -> None:
        self.is_stuck = threading.Event()
        self.release = threading.Event()

    def __call__(self, operation: Operation) -> None:
        if operation.name == "write" and operation.path.parent.name.startswith("__group_events"):
            self.is_stuck.set()
            assert self.release.wait(DEADLINE_S)


class Member:
    """The one member of the group, which rejoins whenever it has to."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._generation_id = -1
        self._member_id = ""

    def rebalance(self, *topics: str) -> None:
        """Join with this subscription, and sync: the SyncGroup's answer waits for the offsets log."""
        metadata = encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = self._ask(join, 3)
        self._member_id, self._generation_id = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(group_id=GROUP, generation_id=self._generation_id, member_id=self._member_id)
        self._ask(sync, 2)

    def heartbeat(self) -> None:
        beat = HeartbeatRequest(group_id=GROUP, generation_id=self._generation_id, member_id=self._member_id)
        self._ask(beat, 3)

    def leave(self) -> None:
        self._ask(LeaveGroupRequest(group_id=GROUP, member_id=self._member_id), 2)

    def _ask(self, request: Any, version: int) -> Any:
        answer = self._client.ask(request, version)
        assert answer.error_code == 0, answer
        return answer


def history(bootstrap: str) -> tuple[GroupEvent, ...]:
    async def read() -> tuple[GroupEvent, ...]:
        async with connected(bootstrap) as cluster:
            return (await read_history(cluster, GROUP)).events

    return asyncio.run(read())


def test_replies_go_out_while_the_historys_disk_is_stuck(tmp_path: Path) -> None:
    """With a single thread that flushes commits: the history's is another one."""
    files = FaultyFiles(tmp_path)
    files.fault = stuck = StuckHistory()
    settings: dict[str, Any] = {"muster_flush_threads": 1, "group_initial_rebalance_delay_ms": 0}
    with Daemon(tmp_path, files, **settings) as daemon, WireClient(daemon.bootstrap) as client:
        member = Member(client)
        member.rebalance("topic")
        assert stuck.is_stuck.wait(DEADLINE_S)
        for number in range(1, REBALANCES):
            member.rebalance(f"topic-{number}")
            member.heartbeat()
        member.leave()
        assert not stuck.release.is_set()
        stuck.release.set()
        events = wait_until(
            lambda: (
                found if (found := history(daemon.bootstrap))[-1:] and found[-1].to_state == "Empty" else ()
            ),
            "all of the history",
            DEADLINE_S,
        )
    assert sum(event.to_state == "Stable" for event in events) == REBALANCES, "and nothing of it was lost"


def test_the_history_of_a_life_before_is_still_there(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    with (
        Daemon(tmp_path, FaultyFiles(tmp_path), **settings) as daemon,
        WireClient(daemon.bootstrap) as client,
    ):
        Member(client).rebalance("topic")
    with Daemon(tmp_path, FaultyFiles(tmp_path), **settings) as daemon:
        events = wait_until(
            lambda: found if len(found := history(daemon.bootstrap)) > 3 else (), "both lives", DEADLINE_S
        )
    assert [(event.cause, event.to_state) for event in events] == [
        ("member_joined", "PreparingRebalance"),
        ("initial_delay_over", "CompletingRebalance"),
        ("assignment_stored", "Stable"),
        ("coordinator_restarted", "Stable"),
    ]
