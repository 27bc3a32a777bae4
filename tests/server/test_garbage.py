"""What requests, members and connections leave behind goes at once: no cycle waits for a garbage collection.

The daemon's own (`muster.serve`) counts on it: it looks at all that lives next to never. (asyncio's own transports
are cycles, so there it does.)
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from coordinator.server.connection import Connection
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.processes import wait_until
from tests.server.asking import GROUP, commit, fetch, make_topic
from tests.server.daemon_thread import DEADLINE_S, Daemon
from tests.storage.faulty_files import FaultyFiles
from tests.wire import WireClient

OURS = ("coordinator.", "protocol.", "storage.", "uvloop.", "asyncio.")
LIVES = 20


@contextmanager
def garbage_kept() -> Iterator[list[Any]]:
    """What the collection at the end finds, and nothing collected until then."""
    gc.collect()
    gc.disable()
    found: list[Any] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def ours(found: list[Any]) -> Counter[str]:
    names = (f"{type(each).__module__}.{type(each).__name__}" for each in found)
    return Counter(name for name in names if name.startswith(OURS))


def live(bootstrap: str) -> None:
    """A member's life: it joins, works, and leaves; and one that left while it was waiting."""
    with WireClient(bootstrap) as parked:
        parked.send(join("waiting"), 3)
    with WireClient(bootstrap) as client:
        joined = client.ask(join(GROUP), 3)
        me = {"group_id": GROUP, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")
        assert client.ask(SyncGroupRequest(**me, assignments=[assigned]), 3).error_code == 0
        for offset in range(4):
            assert client.ask(HeartbeatRequest(**me), 3).error_code == 0
            client.ask(commit(offset, "other"), 8)
            client.ask(fetch("other"), 8)
        leaving = MemberIdentity(member_id=joined.member_id)
        assert client.ask(LeaveGroupRequest(group_id=GROUP, members=[leaving]), 3).error_code == 0


def join(group_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def no_connection_is_open() -> bool:
    return not any(isinstance(each, Connection) and each.is_open for each in gc.get_objects())


def test_nothing_of_a_members_life_waits_for_a_collection(tmp_path: Path) -> None:
    settings = {"group_initial_rebalance_delay_ms": 20}
    with Daemon(tmp_path, FaultyFiles(tmp_path), uvloop.new_event_loop, **settings) as daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topic(client)
        live(daemon.bootstrap)
        with garbage_kept() as found:
            for _ in range(LIVES):
                live(daemon.bootstrap)
            wait_until(no_connection_is_open, "the connections to be closed", DEADLINE_S)
        assert ours(found).most_common(10) == []
