"""Rebalances that are caused on purpose, each with what is then to be reported of it.

Stock clients where a stock client does such a thing, and members at the level of the wire where it takes one that
behaves badly: that does not rejoin, sends no SyncGroup, or lets its id expire.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer

from harness.observer import Observer
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

ROOT = Path(__file__).resolve().parent.parent.parent
LONG_MS = 600_000  # The session timeout of members without heartbeats.
SHORT_MS = 3_000
"""The time that members are to miss. On a busy machine those who are not to miss it may take seconds."""
DEADLINE_S = 60.0


class ProvokedRebalance(NamedTuple):
    """A rebalance as it was caused: in which group, by what, and what else happened within it."""

    group_id: str
    cause: str
    within: tuple[str, ...] = ()
    outcome: str = "Stable"


class WireMember:
    """A member of one connection; every step of it is asked for."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        client_id: str,
        *,
        instance_id: str | None = None,
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
    ) -> None:
        self._wire = WireClient(bootstrap, client_id)
        self._group_id = group_id
        self._instance_id = instance_id
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self.protocol = "range"
        self.metadata = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        self.member_id = ""
        self.joined: Any = None

    def send_join(self) -> None:
        """Ask to join; the id that today's clients are handed first is used at once."""
        if not self.member_id and self._instance_id is None:
            self.member_id = self.ask_for_id()
        self._wire.send(self._join_request(), 9)

    def ask_for_id(self) -> str:
        answer = self._wire.ask(self._join_request(), 9)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(answer.member_id)

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=self.metadata)],
        )

    def joins(self) -> None:
        self.joined = self._wire.receive()
        assert self.joined.error_code == ErrorCode.NONE
        self.member_id = self.joined.member_id

    @property
    def leads(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    def send_sync(self) -> None:
        ids = [member.member_id for member in self.joined.members] if self.leads else []
        self._wire.send(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self.joined.generation_id,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[SyncGroupRequestAssignment(member_id=each, assignment=b"") for each in ids],
            ),
            5,
        )

    def syncs(self) -> None:
        assert self._wire.receive().error_code == ErrorCode.NONE

    def leave(self, **identity: Any) -> None:
        members = [MemberIdentity(**(identity or {"member_id": self.member_id}))]
        answer = self._wire.ask(LeaveGroupRequest(group_id=self._group_id, members=members), 5)
        assert answer.members[0].error_code == ErrorCode.NONE

    def receive_error(self) -> int:
        """What the parked request is answered in the end."""
        return int(self._wire.receive().error_code)

    def close(self) -> None:
        self._wire.close()


def rejoin(*members: WireMember, syncing: tuple[WireMember, ...] | None = None) -> None:
    """All of `members` join, and those of `syncing`, unless given all, take their assignments."""
    for member in members:
        member.send_join()
    settle(*members, syncing=syncing)


def settle(*members: WireMember, syncing: tuple[WireMember, ...] | None = None) -> None:
    for member in members:
        member.joins()
    chosen = members if syncing is None else syncing
    for member in sorted(chosen, key=lambda each: not each.leads):
        member.send_sync()
    for member in chosen:
        member.syncs()


class RebalanceProvoker:
    """Does them, on a Muster daemon of its own with short times. What was done is in `done`, in order by group."""

    def __init__(self, bootstrap: str, observer: Observer) -> None:
        self.bootstrap = bootstrap
        self.observer = observer
        self.done: list[ProvokedRebalance] = []
        self._members: list[WireMember] = []

    def close(self) -> None:
        for member in self._members:
            member.close()

    def member(self, group_id: str, client_id: str, **options: Any) -> WireMember:
        member = WireMember(self.bootstrap, group_id, client_id, **options)
        self._members.append(member)
        return member

    def did(self, group_id: str, cause: str, *within: str, outcome: str = "Stable") -> None:
        self.done.append(ProvokedRebalance(group_id, cause, within, outcome))

    def pair(self, group_id: str, **options: Any) -> tuple[WireMember, WireMember]:
        """Two members of a Stable group; the first one leads."""
        first, second = (self.member(group_id, f"{group_id}-{n}", **options) for n in (1, 2))
        rejoin(first)
        self.did(group_id, "member_joined")
        second.send_join()
        self.await_state(group_id, "PREPARING_REBALANCING")
        rejoin_with(first, second)
        self.did(group_id, "member_joined")
        return first, second

    def await_state(self, group_id: str, state: str) -> None:
        wait_until(lambda: self.observer.state(group_id) == state, f"{group_id} is {state}", DEADLINE_S)

    def leaving(self) -> None:
        first, second = self.pair("leaving")
        second.leave()
        rejoin(first)
        self.did("leaving", "member_left")
        first.leave()
        self.did("leaving", "member_left", "group_emptied", outcome="Empty")

    def removed(self) -> None:
        static = self.member("removed", "static", instance_id="i-1")
        rejoin(static)
        self.did("removed", "member_joined")
        admin = self.member("removed", "admin")
        admin.leave(member_id="", group_instance_id="i-1")
        self.did("removed", "removed_by_admin", "group_emptied", outcome="Empty")

    def replaced(self) -> None:
        """No rebalance: the instance keeps its place."""
        old = self.member("replaced", "old", instance_id="i-2")
        rejoin(old)
        self.did("replaced", "member_joined")
        again = self.member("replaced", "again", instance_id="i-2")
        again.send_join()
        again.joins()

    def changing(self) -> None:
        first, second = self.pair("changing")
        second.metadata += b"\x00"
        second.send_join()
        self.await_state("changing", "PREPARING_REBALANCING")
        rejoin_with(first, second)
        self.did("changing", "member_metadata_changed")
        first.send_join()
        self.await_state("changing", "PREPARING_REBALANCING")
        rejoin_with(second, first)
        self.did("changing", "leader_rejoined")

    def late(self) -> None:
        """One does not rejoin in time, and one that was handed an id does not use it."""
        first, _ = self.pair("late", rebalance_ms=SHORT_MS)
        third = self.member("late", "late-3", rebalance_ms=SHORT_MS)
        third.send_join()
        self.await_state("late", "PREPARING_REBALANCING")
        rejoin_with(first, third)
        self.did("late", "member_joined", "rebalance_timeout")

    def pending(self) -> None:
        first = self.member("pending", "pending-1")
        rejoin(first)
        self.did("pending", "member_joined")
        second = self.member("pending", "pending-2")
        second.send_join()
        self.await_state("pending", "PREPARING_REBALANCING")
        self.member("pending", "never", session_ms=SHORT_MS).ask_for_id()
        first.send_join()
        settle(first, second)
        self.did("pending", "member_joined", "pending_member_expired")

    def unsynced(self) -> None:
        """The follower never fetches its assignment: after the rebalance timeout it is out."""
        first = self.member("unsynced", "unsynced-1", rebalance_ms=SHORT_MS)
        second = self.member("unsynced", "unsynced-2", rebalance_ms=SHORT_MS)
        rejoin(first)
        self.did("unsynced", "member_joined")
        second.send_join()
        self.await_state("unsynced", "PREPARING_REBALANCING")
        first.send_join()
        settle(first, second, syncing=(first,))
        self.did("unsynced", "member_joined")
        self.await_state("unsynced", "PREPARING_REBALANCING")
        rejoin(first)
        self.did("unsynced", "sync_timeout")

    def deleted(self) -> None:
        """A group that is deleted and made again: its generations begin again."""
        for _ in range(2):
            member = self.member("deleted", "deleted-1")
            rejoin(member)
            self.did("deleted", "member_joined")
            member.leave()
            self.did("deleted", "member_left", "group_emptied", outcome="Empty")
            with WireClient(self.bootstrap, "deleting") as wire:
                answer = wire.ask(DeleteGroupsRequest(groups_names=["deleted"]), 2)
                assert answer.results[0].error_code == ErrorCode.NONE

    def begin_a_rebalance_for_the_restart(self) -> None:
        """Left open: the test that restarts the coordinator calls `after_the_restart`."""
        self.survivors = self.pair("restarted")
        self.member("restarted", "restarted-3").send_join()
        self.await_state("restarted", "PREPARING_REBALANCING")
        self.did("restarted", "member_joined", "coordinator_restarted", outcome="Dead")

    def after_the_restart(self) -> None:
        """The members that were stored are members still, and join again, the leader first."""
        first, second = (self.member("restarted", f"restarted-{n}") for n in (1, 2))
        first.member_id, second.member_id = (each.member_id for each in self.survivors)
        first.send_join()
        self.await_state("restarted", "PREPARING_REBALANCING")
        rejoin_with(second, first)
        self.did("restarted", "leader_rejoined")

    def with_stock_clients(self) -> None:
        """Consumers of librdkafka: they come, one is killed, the topic grows, one goes."""
        topic = self.observer.create_topic("events", 2)
        first = stock_consumer(self.bootstrap, "stock", "stock-1")
        first.subscribe([topic])
        poll_until(first, lambda: len(first.assignment()) == 2, "it has both partitions")
        self.did("stock", "member_joined")
        victim = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.workers.confluent_worker", "member", json.dumps(
                {"bootstrap": self.bootstrap, "group": "stock", "topics": [topic], "client_id": "victim",
                 "session_timeout_ms": 5_000})],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            poll_until(first, lambda: len(first.assignment()) == 1, "the victim has one")
            poll_until(first, lambda: self.observer.state("stock") == "STABLE", "both have theirs")
        finally:
            victim.kill()
            victim.wait()
        self.did("stock", "member_joined")
        poll_until(first, lambda: len(first.assignment()) == 2, "it has both again")
        self.did("stock", "session_expired")
        self.observer.grow_topic(topic, 3)
        poll_until(first, lambda: len(first.assignment()) == 3, "it has the third")
        self.did("stock", "partition_counts_changed")
        first.close()
        self.did("stock", "member_left", "group_emptied", outcome="Empty")


def rejoin_with(member: WireMember, *parked: WireMember) -> None:
    """`member` joins those that wait already."""
    member.send_join()
    settle(member, *parked)


def stock_consumer(bootstrap: str, group_id: str, client_id: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": client_id,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 200,
            "enable.auto.commit": False,
        }
    )


def poll_until(consumer: Consumer, condition: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        consumer.poll(0.05)
        return condition()

    wait_until(look, what, DEADLINE_S)
