"""The herd of the bench, on a daemon: what it counts, and that sessions of others end beside it and not before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.paired_loads import OFFSETS_OF_A_COMMIT
from bench.pairs import cold, frames
from bench.pairs.crowd import ANSWER_HEADER_BYTES, Crowd, await_coordinator
from bench.pairs.frames import FETCH, HEARTBEAT
from bench.pairs.lanes import LoadError, ask, connect
from bench.pairs.plan import Plan, quick
from bench.pairs.rounds import MUSTER
from bench.pairs.singles import TOPIC, errors_in
from bench.pairs.storms import NO_DELAY
from bench.pairs.storms_at_once import Expiring, Herds, expiring
from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

SIZE = 30


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return replace(quick(tmp_path_factory.mktemp("bench")), groups=3, group_size=2, expiry_ms=3_000)


@pytest.fixture(scope="module")
def daemon(plan: Plan) -> Iterator[MusterDaemon]:
    with plan.muster("daemon", NO_DELAY) as started:
        yield started


def test_every_join_of_a_herd_is_counted(daemon: MusterDaemon) -> None:
    """Each member joins twice at least: without an id, and with the one that it was given."""
    herds = Herds(MUSTER, daemon)
    herds.herd("herd", SIZE)
    (joins,), (generations,) = herds.joins, herds.generations
    assert 2 * SIZE <= joins <= SIZE * (1 + generations)
    assert herds.row.startswith(f"| Muster | {herds.seconds[0]:.2f} | ")
    assert herds.row.endswith(f"| {joins:,} | {joins:,} to {joins:,} | {generations} to {generations} |")


def test_sessions_end_beside_a_herd(daemon: MusterDaemon, plan: Plan) -> None:
    """The herd joins when the first of them ends; each was heard of a session before that, and none later."""
    others = expiring(daemon, "other", plan)
    assert errors_of(others) == {ErrorCode.NONE}, "all are there until then"
    others.close()
    others = expiring(daemon, "again", plan)
    beaten = time.perf_counter()
    herds = Herds(MUSTER, daemon)
    herds.herd("beside", SIZE, others.await_first)
    assert time.perf_counter() - beaten > plan.expiry_ms / 1000 - 1
    connections = others.connections
    others.await_last()
    assert [connection.fileno() for connection in connections] == [-1] * len(connections)
    with connect(daemon.port) as connection:
        gone = {errors_in(HEARTBEAT, ask(connection, frames.heartbeat(m)))[0] for m in others.members}
    assert gone == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_where_sessions_end_too_soon_others_join(
    daemon: MusterDaemon, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = iter([LoadError("too slow"), LoadError("too slow")])
    beat = Expiring.beat

    def refused_twice(self: Expiring) -> None:
        for error in refused:
            raise error
        beat(self)

    monkeypatch.setattr(Expiring, "beat", refused_twice)
    made = expiring(daemon, "tried", plan)
    assert errors_of(made) == {ErrorCode.NONE}
    made.close()
    refused = iter([LoadError("too slow")] * 3)
    with pytest.raises(LoadError, match="too slow"):
        expiring(daemon, "tried-again", plan)


def errors_of(others: Expiring) -> set[int]:
    pairs = zip(others.connections, others.members, strict=True)
    return {
        errors_in(HEARTBEAT, ask(connection, frames.heartbeat(member)))[0] for connection, member in pairs
    }


def test_a_session_that_ended_too_soon_fails_the_round(daemon: MusterDaemon, plan: Plan) -> None:
    """A machine that takes longer than a session for the joins would measure a herd that is alone."""
    others = Expiring(daemon, "soon", plan)
    others.await_last()
    others.connections = [connect(daemon.port) for _ in others.members]
    with pytest.raises(LoadError, match="UNKNOWN_MEMBER_ID before its session was to end"):
        others.beat()
    others.close()


def test_the_sessions_of_a_crowd_are_as_long_as_it_was_told(daemon: MusterDaemon) -> None:
    """The daemon's shortest session here is three seconds: it refuses one of a second."""
    await_coordinator(daemon.port, ["short"])
    with connect(daemon.port) as connection, pytest.raises(LoadError, match="INVALID_SESSION_TIMEOUT"):
        Crowd(["short"], 1, [connection], session_timeout_ms=1_000).join(10)


def test_a_cold_life_has_its_work_done(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is stopped its groups, their last commits and all records are there; then its directory goes."""
    server = plan.muster("cold", NO_DELAY)
    found: list[tuple[int, int, int]] = []

    def stopped() -> int:
        with WireClient(server.bootstrap) as client:
            groups = client.ask(ListGroupsRequest(), 4).groups
            wanted = frames.fetch(groups[0].group_id, TOPIC, 0)
            latest = ListOffsetsTopic(
                name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
            end = client.ask(ListOffsetsRequest(topics=[latest]), 5).topics[0].partitions[0].offset
        with connect(server.port) as connection:
            answer: Any = decode(RESPONSES[FETCH[0]], FETCH[1], ask(connection, wanted), ANSWER_HEADER_BYTES)
        found.append((len(groups), answer.groups[0].topics[0].partitions[0].committed_offset, end))
        return MusterDaemon.terminate(server)

    monkeypatch.setattr(server, "terminate", stopped)
    took_s, cpu_s = cold._life(server, plan)
    assert found == [(plan.cold_groups, OFFSETS_OF_A_COMMIT[1], plan.cold_records)]
    assert took_s > 0
    assert cpu_s > 0.1, "what it used until it ended, of all its threads"
    assert not server.data_dir.exists()
