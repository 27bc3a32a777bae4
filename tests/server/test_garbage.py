"""What requests, members and connections leave behind goes at once: no cycle waits for a garbage collection.

The daemon's own (`muster.serve`) counts on it, and looks at all that lives a tenth as often as Python would. On
asyncio's own loop it does not: transports are cycles there.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coordinator.server.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.processes import wait_until
from tests.server.asking import GROUP, TOPIC, commit, fetch, make_topic, produce
from tests.server.daemon_thread import DEADLINE_S, Daemon
from tests.storage.faulty_files import FaultyFiles
from tests.topics.requests import fetch_request
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


def member(bootstrap: str) -> None:
    """It joins, works, and leaves; and one that left while it was waiting."""
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
        client.ask(ListGroupsRequest(), 4)
        client.ask(DescribeGroupsRequest(groups=[GROUP, "other"]), 5)


def data(bootstrap: str) -> None:
    """Records written and read, and a reader that left while it was waiting."""
    with WireClient(bootstrap) as parked:
        parked.send(fetch_request((TOPIC, 0, 1 << 20), max_wait_ms=60_000), 12)
        parked.send(fetch_request((TOPIC, 0, 0), max_wait_ms=60_000, min_bytes=1 << 20), 12)
    with WireClient(bootstrap) as client:
        assert produce(client) == 0
        client.ask(fetch_request((TOPIC, 0, 0)), 12)


def transaction(bootstrap: str) -> None:
    """Offsets of a group, committed with it."""
    with WireClient(bootstrap) as client:
        init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        while (given := client.ask(init, 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            continue  # The one before is being completed.
        assert given.error_code == 0
        me = {
            "transactional_id": "t",
            "producer_id": given.producer_id,
            "producer_epoch": given.producer_epoch,
        }
        assert client.ask(AddOffsetsToTxnRequest(group_id=GROUP, **me), 4).error_code == 0
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topic = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])
        held = client.ask(TxnOffsetCommitRequest(group_id=GROUP, topics=[topic], **me), 3)
        assert held.topics[0].partitions[0].error_code == 0
        assert client.ask(EndTxnRequest(committed=True, **me), 3).error_code == 0


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


@pytest.mark.parametrize("life", [member, data, transaction])
def test_nothing_that_has_gone_waits_for_a_collection(tmp_path: Path, life: Callable[[str], None]) -> None:
    settings = {"group_initial_rebalance_delay_ms": 20}
    with Daemon(tmp_path, FaultyFiles(tmp_path), uvloop.new_event_loop, **settings) as daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topic(client)
        life(daemon.bootstrap)
        with garbage_kept() as found:
            for _ in range(LIVES):
                life(daemon.bootstrap)
            wait_until(no_connection_is_open, "the connections to be closed", DEADLINE_S)
        assert dict(ours(found)) == {}
