"""Seeded walks through everything a client may do, with crashes, slow disks and silence thrown in.

Not the simulation (that has clients with assignors and faults at every step); enough to catch what no
scenario thought of. After each step the house rules hold; in the end, left in peace, groups become Stable.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from coordinator.groups.group import Group
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from protocol.errors import ErrorCode
from tests.groups.consumer import Consumer, subscription
from tests.groups.driver import Driver

STEPS = 300
RESET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}


class Walker:
    """A few clients of one group, whose next move is drawn."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        delay_ms = self.random.choice([0, 1_000, 3_000])
        max_size = 3 if seed % 4 == 0 else 100
        settings = GroupSettings(group_initial_rebalance_delay_ms=delay_ms, group_max_size=max_size)
        self.driver = Driver(settings)
        self.clients = [self._client(i) for i in range(5)]

    def _client(self, i: int) -> Consumer:
        return Consumer(
            self.driver,
            f"c{i}",
            instance_id=f"i{i}" if i < 2 else None,
            version=self.random.choice([3, 5, 9]) if i < 2 else self.random.choice([0, 4, 9]),
            rebalance_ms=self.random.choice([8_000, 20_000]),
        )

    def step(self) -> None:
        moves: list[Callable[[], None]] = [self.join] * 6 + [self.sync] * 5 + [self.heartbeat] * 5
        moves += [self.wait] * 4 + [self.commit] * 2 + [self.leave, self.forget, self.change]
        moves += [self.driver.hold_disk, self.driver.flush, self.driver.flush, self.crash]
        self.random.choice(moves)()
        self.collect()
        self.check()

    def pick(self) -> Consumer:
        return self.random.choice(self.clients)

    def join(self) -> None:
        client = self.pick()
        client.send_join()

    def sync(self) -> None:
        client = self.pick()
        if client.member_id:
            client.send_sync()

    def heartbeat(self) -> None:
        client = self.pick()
        if client.heartbeat() in RESET:
            client.member_id = ""

    def wait(self) -> None:
        self.driver.advance(self.random.choice([1, 500, 3_000, 9_000]))

    def commit(self) -> None:
        self.pick().send_commit(self.random.randrange(100))

    def leave(self) -> None:
        client = self.pick()
        if client.member_id:
            self.driver.flush()
            client.leave()
            client.member_id = ""

    def forget(self) -> None:
        """The process dies and another starts."""
        client = self.pick()
        client.member_id, client.parked = "", None

    def change(self) -> None:
        topics = self.random.choice([("orders",), ("clicks",), ("orders", "clicks")])
        self.pick().protocols = (("range", subscription(*topics)),)

    def crash(self) -> None:
        self.driver.crash()
        for client in self.clients:
            client.parked = None

    def collect(self) -> None:
        for client in self.clients:
            if client.parked is not None and self.driver.answered(client.parked):
                reply = client.collect_join()
                if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    client.member_id = reply.member_id
                elif reply.error_code in RESET:
                    client.member_id = ""

    def check(self) -> None:
        self.driver.assert_replay_agrees()
        group = self.driver.shard.groups.get("g")
        if group is not None:
            check_group(group, self.driver)

    def settle(self) -> None:
        """Everybody behaves for a while: joins, syncs and beats."""
        self.driver.flush()
        for _ in range(40):
            self.driver.advance(1_000)
            self.collect()
            for client in self.clients:
                self.behave(client)

    def behave(self, client: Consumer) -> None:
        if client.parked is not None:
            return
        answer = client.heartbeat() if client.member_id else ErrorCode.UNKNOWN_MEMBER_ID
        if answer in RESET:
            client.member_id = ""
        if answer is not ErrorCode.NONE:
            client.send_join()
            self.collect()
            if client.member_id in self.driver.group().pending_members:
                client.send_join()  # At once, or the id holds up everybody.
        elif self.driver.group().state is COMPLETING_REBALANCE:
            client.send_sync()


def check_group(group: Group, driver: Driver) -> None:
    """What must hold of a group between any two events."""
    assert group.joined_count == sum(m.awaiting_join is not None for m in group.members.values())
    assert all(member_id == member.member_id for member_id, member in group.members.items())
    static = {m.group_instance_id: m.member_id for m in group.members.values() if m.group_instance_id}
    assert static == group.static_members
    assert (group.leader in group.members) if group.members else group.leader is None
    assert group.pending_sync <= set(group.members)
    assert not group.pending_members & set(group.members)
    if group.state is EMPTY:
        assert not group.members
    if group.state in (STABLE, COMPLETING_REBALANCE):
        assert group.members
        assert group.protocol_name is not None
    if group.state is not PREPARING_REBALANCE:
        assert group.initial_delay is None
    for member in group.members.values():
        assert member.awaiting_sync is None or group.state is COMPLETING_REBALANCE
        if not member.is_parked:
            armed = member.session_timer_ms
            assert armed is not None
            assert driver.now_ms <= armed <= member.session_deadline_ms


@pytest.mark.parametrize("seed", range(40))
def test_the_house_rules_hold_wherever_clients_walk(seed: int) -> None:
    walker = Walker(seed)
    for _ in range(STEPS):
        walker.step()
    if seed % 4 == 0:
        return  # More clients than the group holds: those turned away keep it busy for ever.
    walker.settle()
    group = walker.driver.group()
    assert group.state is STABLE, f"seed={seed}"
    assert {c.generation_id for c in walker.clients if c.member_id in group.members} == {group.generation_id}
