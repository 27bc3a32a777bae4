"""`python -m bench.cluster_growth` at sizes that take no time: what it counts is what a node does, and adds up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from math import isclose

import pytest

from bench.cluster_growth import __main__ as command
from bench.cluster_growth import paper
from bench.cluster_growth.answers import KnownCluster
from bench.cluster_growth.group_of_nodes import MAX_MESSAGE_BYTES, most_nodes, sizes
from bench.cluster_growth.one_node import (
    BROKERS,
    GROUPS_IN_BATCH,
    KEEP_ALIVE_S,
    RECORDS_OF_GROUP,
    Asked,
    Measured,
    Size,
    fill,
    measure,
)
from bench.cluster_growth.played_kafka import PlayedLog
from bench.cluster_growth.virtual_time import VirtualClock, VirtualLoop, run
from coordinator.backing.kafka.tail import LONGEST_WAIT_MS
from protocol.records.batch import walk

SMALL = Size(3, 9, 270)
QUIET_S, BUSY_S, RATE = 20.0, 3.0, 50


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(Asked(SMALL, (RATE,), QUIET_S, BUSY_S))


def test_time_jumps_over_waits_and_goes_on_with_work() -> None:
    clock = VirtualClock()

    async def main(loop: VirtualLoop) -> tuple[float, int, int]:
        began_s = loop.time()
        await asyncio.sleep(3_600)
        waited_s = loop.time() - began_s
        before_ns = clock.cpu_ns
        with clock.apart():
            sum(range(1_000_000))
        apart_ns = clock.cpu_ns
        sum(range(1_000_000))
        return waited_s, apart_ns - before_ns, clock.cpu_ns - apart_ns

    waited_s, apart_ns, used_ns = run(clock, main)
    assert 3_600 <= waited_s < 3_601
    assert apart_ns < used_ns / 10, "what is the Kafka's is not the node's"


def test_a_node_follows_all_logs_and_serves_its_share(measured: Measured) -> None:
    assert measured.owned == 3
    assert measured.start.requests["Fetch"] >= BROKERS
    assert measured.serving.requests["InitProducerId"] == 3
    assert measured.serving.partitions["Produce"] == 3, "a claim for each"


def test_memory_is_that_of_a_process_of_its_own() -> None:
    """One that has had more before shows nothing of what a node takes."""
    memory = command.measured_apart(SMALL, has_sessions=True).memory
    assert memory.made < memory.served


def test_a_quiet_node_asks_as_often_as_on_paper(measured: Measured) -> None:
    quiet = measured.quiet
    assert quiet.rate("Fetch") == pytest.approx(paper.fetches(SMALL), rel=0.05)
    assert quiet.rate("Fetch") == pytest.approx(BROKERS * 1000 / LONGEST_WAIT_MS, rel=0.05)
    assert quiet.partitions["Fetch"] < quiet.requests["Fetch"], "in a session nothing is named again"
    assert "Produce" not in quiet.requests
    assert 0 < quiet.cpu_s < quiet.took_s


def test_beside_others_there_is_a_fetch_for_each_of_their_batches(measured: Measured) -> None:
    busy = measured.busy[RATE]
    assert busy.took_s == pytest.approx(BUSY_S, rel=0.05)
    assert busy.rate("Fetch") == pytest.approx(paper.fetches(SMALL, RATE), rel=0.1)
    assert busy.partitions["Fetch"] >= 0.9 * RATE * BUSY_S, (
        "one that has been read is named by its new position"
    )


def test_of_a_node_that_dies_its_heirs_take_what_is_theirs(measured: Measured) -> None:
    taken = measured.takeover
    assert measured.taken in (1, 2)
    assert paper.taken(SMALL) == 1.5
    assert taken.requests["InitProducerId"] == measured.taken == taken.partitions["Produce"]
    assert taken.took_s == pytest.approx(paper.takeover_s(), rel=0.05)


def test_in_the_time_of_a_keep_alive_each_owner_says_once_that_it_is_there() -> None:
    size = Size(3, 6, 0)
    quiet = measure(Asked(size)).quiet
    assert quiet.took_s > KEEP_ALIVE_S
    assert quiet.partitions["Produce"] == 2
    assert isclose(paper.keep_alives(size), 6 / KEEP_ALIVE_S)


def test_without_sessions_every_fetch_names_every_partition() -> None:
    quiet = measure(Asked(SMALL, quiet_s=2.0, has_sessions=False)).quiet
    assert quiet.partitions["Fetch"] == quiet.requests["Fetch"] * SMALL.shards / BROKERS


def test_a_measurement_comes_back_from_another_process_as_it_was(measured: Measured) -> None:
    assert command.read(json.loads(json.dumps(asdict(measured)))) == measured
    assert len(command.quiet_row(measured)) == len(command.QUIET) - len(command.RATES) + 1
    assert len(command.moving_row(measured)) == len(command.MOVING)


def test_a_played_log_is_read_in_whole_batches_from_any_offset() -> None:
    log = PlayedLog(0)
    groups = [f"group-{number}" for number in range(GROUPS_IN_BATCH + 1)]
    fill(log, groups)
    assert log.end == len(groups) * RECORDS_OF_GROUP
    found = list(walk(log.read(0, 1 << 20)))
    assert [each.base_offset for each in found] == [0, GROUPS_IN_BATCH * RECORDS_OF_GROUP]
    assert found[-1].last_offset == log.end - 1
    assert len(list(walk(log.read(0, 1)))) == 1, "one batch is answered whatever its size"
    appended_at = log.append(log.read(log.end - 1, 1))
    assert [each.base_offset for each in walk(log.read(appended_at, 1 << 20))] == [appended_at]
    assert log.read(log.end, 1 << 20) == b""


def test_a_group_has_as_many_nodes_as_its_record_has_room_for() -> None:
    most = most_nodes(50, limit=300)
    assert sizes(most, 50).record <= MAX_MESSAGE_BYTES < sizes(most + 1, 50).record


def test_answers_name_every_node() -> None:
    few, many = (
        {each.what: each.size for each in KnownCluster(Size(nodes, 50, 0)).answers()} for nodes in (3, 30)
    )
    assert few["FindCoordinator"] == many["FindCoordinator"] > 20
    for what in ("Metadata, nodes alone", "DescribeCluster"):
        assert many[what] > 5 * few[what] > 0
