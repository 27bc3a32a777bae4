"""Descriptors run out: accepting pauses, with a line in the log; the log keeps its share; it goes on at once."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import psutil
import pytest

from coordinator.groups.partitioning import partition_for
from coordinator.server.descriptors import Descriptors
from harness.daemon import MusterDaemon
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LIMIT = 200
FLOOD = 300
HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
GROUPS = 16
"""Each on a partition of its own, whose first segment is opened by its first commit."""

PLACES = 16
PLACES_S = 8.0
"""A millisecond each where nothing else runs. The timer that looks for places would take a second for each."""

COME_AND_GO = 3000
BURST = 2000
BURST_S = 10.0
"""For all to be answered, of a daemon that is busy; one that was dropped comes a second later, then two more."""


class FewDescriptors(MusterDaemon):
    """A daemon that may have `LIMIT` descriptors, of which at first it asks for fewer."""

    def _command(self) -> list[str]:
        return ["prlimit", f"--nofile={LIMIT // 2}:{LIMIT}", *super()._command()]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with FewDescriptors(tmp_path_factory.mktemp("few")) as running:
        yield running


def commit(group_id: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def groups_of_different_partitions() -> list[str]:
    by_partition = {partition_for(f"g{number}", 50): f"g{number}" for number in range(2000)}
    return list(by_partition.values())[:GROUPS]


def flood(daemon: MusterDaemon) -> list[socket.socket]:
    """More connections than there are descriptors; those over the limit wait in the system's queue."""
    return [socket.create_connection((HOST, daemon.port), timeout=10) for _ in range(FLOOD)]


def lines(daemon: MusterDaemon, event: str) -> list[str]:
    return [line for line in daemon.log_path.read_text().splitlines() if event in line]


@pytest.mark.parametrize(("limit", "for_connections"), [(100, 50), (200, 136), (1024, 768), (20_000, 15_000)])
def test_the_reserve_follows_the_limit(limit: int, for_connections: int) -> None:
    assert Descriptors(limit).for_connections == for_connections


def test_the_start_raises_the_limit_and_says_what_it_allows(daemon: MusterDaemon) -> None:
    assert psutil.Process(daemon.pid).rlimit(psutil.RLIMIT_NOFILE) == (LIMIT, LIMIT)
    (line,) = lines(daemon, "limit on open files")
    assert f'"open_files": {LIMIT}' in line
    assert f'"connections_at_most": {Descriptors(LIMIT).for_connections}' in line
    assert '"level": "warning"' in line, "it is little"


def test_a_flood_leaves_the_log_its_descriptors_and_ends_with_it(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
        wait_until(lambda: client.ask(asked, 9).topics[0].error_code == 0, "the topic is there", 30)
        flooding = flood(daemon)
        wait_until(lambda: lines(daemon, "accepting paused"), "accepting is paused", 30)
        before = psutil.Process(daemon.pid).num_fds()
        for group_id in groups_of_different_partitions():
            answer = client.ask(commit(group_id), 8)
            assert answer.topics[0].partitions[0].error_code == 0, group_id
        wanted = before + GROUPS
        wait_until(lambda: psutil.Process(daemon.pid).num_fds() >= wanted, "each commit opens a segment", 30)
        assert len(lines(daemon, "accepting paused")) == 1, "one line, however long"
        start = time.monotonic()
        for each in flooding:
            each.close()
        with WireClient(daemon.bootstrap) as late:
            assert late.ask(HELLO, 3).error_code == 0
        assert time.monotonic() - start < 10, "the queue of the dead is gone through at once"
        wait_until(lambda: lines(daemon, "accepting again"), "and that is said", 30)


def test_thousands_that_come_and_go_leave_nothing(daemon: MusterDaemon) -> None:
    """Some hang up politely, some reset, some have sent the beginning of a request."""
    before = psutil.Process(daemon.pid).num_fds()
    for number in range(COME_AND_GO):
        peer = socket.create_connection((HOST, daemon.port), timeout=10)
        if number % 3 == 1:
            peer.sendall(struct.pack(">ihh", 100, 12, 4))
        if number % 3 == 2:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    wait_until(lambda: psutil.Process(daemon.pid).num_fds() <= before, "all descriptors are free again", 30)
    with WireClient(daemon.bootstrap) as client:
        assert client.ask(HELLO, 3).error_code == 0
    assert "Traceback" not in daemon.log_path.read_text()


def test_each_place_that_becomes_free_goes_to_the_first_that_waits_at_once(daemon: MusterDaemon) -> None:
    """One for one, while all others of the flood stay and ask nothing."""
    with ExitStack() as stack:
        flooding = [stack.enter_context(WireClient(daemon.bootstrap)) for _ in range(FLOOD)]
        wait_until(lambda: is_at_limit(daemon), "the limit is reached", 30)
        accepted = accepted_of(daemon, flooding)
        waiting = [each for each in flooding if each not in accepted]
        start = time.monotonic()
        for number in range(PLACES):
            waiting[number].send(HELLO, 3)
            accepted[number].close()
            assert waiting[number].receive().error_code == 0
        assert time.monotonic() - start < PLACES_S
        open_now = [*accepted[PLACES:], *waiting]
        assert accepted_of(daemon, open_now) == open_now[: len(accepted)]


def accepted_of(daemon: MusterDaemon, clients: Sequence[WireClient]) -> list[WireClient]:
    """Those that the daemon has a descriptor for; the others wait in the system's queue, the oldest first."""
    open_ports = {each.raddr.port for each in psutil.Process(daemon.pid).net_connections("tcp") if each.raddr}
    return [each for each in clients if each.socket.getsockname()[1] in open_ports]


def is_at_limit(daemon: MusterDaemon) -> bool:
    return bool(psutil.Process(daemon.pid).num_fds() >= Descriptors(LIMIT).for_connections)
