"""What is read out of a push: a few figures and labels, whatever else is in it; and nothing of what is none."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from coordinator.telemetry.payload import (
    MAX_LABEL_CHARS,
    MAX_MS,
    MAX_PARTS,
    PREFIX,
    NotMetrics,
    Said,
    decode_push,
)
from protocol.records.batch import Codec, CorruptBatch
from protocol.records.compression import compress
from tests.otlp import pushed

POLLS = f"{PREFIX}time.between.poll.max"
MIB = 1 << 20


def said(metrics: bytes, codec: Codec = Codec.NONE) -> Said:
    return decode_push(codec, metrics, MIB)


@pytest.mark.parametrize("codec", list(Codec))
def test_figures_are_kept_in_milliseconds_under_their_names(codec: Codec) -> None:
    figures: dict[str, float | int] = {
        POLLS: 312_000.4,
        f"{PREFIX}last.poll.seconds.ago": 7.0,
        f"{PREFIX}coordinator.last.heartbeat.seconds.ago": 3,
        f"{PREFIX}coordinator.rebalance.latency.avg": 1.5,
        f"{PREFIX}coordinator.rebalance.latency.max": 9.0,
        f"{PREFIX}coordinator.rebalance.latency.total": 99.0,
        "org.apache.kafka.producer.time.between.poll.max": 1.0,
    }
    labels = {"group_id": "billing", "group_member_id": "app-1-6f0c", "client_rack": "r"}
    found = said(compress(codec, pushed(figures, labels)), codec)
    assert found.labels == {"group_id": "billing", "group_member_id": "app-1-6f0c"}
    assert found.figures == {
        "time_between_poll_max_ms": 312_000,
        "last_poll_ago_ms": 7_000,
        "last_heartbeat_ago_ms": 3_000,
        "rebalance_latency_avg_ms": 2,
        "rebalance_latency_max_ms": 9,
    }


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0, -1, 1e300, MAX_MS])
def test_what_is_no_time_is_not_kept(number: float | int) -> None:
    assert said(pushed({POLLS: number})).figures == {}


def test_a_label_that_is_too_long_is_not_kept() -> None:
    longest = "g" * MAX_LABEL_CHARS
    assert said(pushed({}, {"group_id": longest})).labels == {"group_id": longest}
    assert said(pushed({}, {"group_id": f"{longest}g"})).labels == {}


@pytest.mark.parametrize("data", [b"\xff", b"\xff\xff\xff", pushed({POLLS: 1.0})[:-1], b"\x0a\x05"])
def test_what_is_no_metrics_data_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(NotMetrics):
        said(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_metrics_or_are_refused(data: bytes) -> None:
    try:
        found = said(data)
    except NotMetrics:
        return
    assert all(0 <= figure <= MAX_MS for figure in found.figures.values())


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_costs_no_more_than_a_push_may_have(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    with pytest.raises(CorruptBatch):
        said(bomb, codec)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(bomb) + 4 * MIB


def part(field: int, content: bytes) -> bytes:
    """One field of bytes, as protobuf writes it."""
    size, length = len(content), b""
    while size > 0x7F:
        size, length = size >> 7, length + bytes([size & 0x7F | 0x80])
    return bytes([field << 3 | 2]) + length + bytes([size]) + content


BEYOND = b"\x0a\x00" * MAX_PARTS
GAUGE = MetricsData.FromString(pushed({POLLS: 1.0})).resource_metrics[0].scope_metrics[0].metrics[0]
LABELLED = MetricsData.FromString(pushed({}, {"group_id": "g"})).resource_metrics[0].SerializeToString()
WITHOUT_END = {
    "resources": BEYOND,
    "labels": part(1, part(1, BEYOND)),
    "scopes": part(1, b"\x12\x00" * MAX_PARTS),
    "metrics": part(1, part(2, b"\x12\x00" * MAX_PARTS)),
    "numbers": part(1, part(2, part(2, GAUGE.SerializeToString() + part(5, BEYOND)))),
}


@pytest.mark.parametrize("what", WITHOUT_END)
def test_of_a_push_so_many_parts_are_looked_at_and_no_more(what: str) -> None:
    """A mebibyte may have 500,000, which say nothing and cost a second."""
    assert said(part(1, LABELLED) + WITHOUT_END[what]).labels == {"group_id": "g"}
    assert said(WITHOUT_END[what] + part(1, LABELLED)).labels == {}


def test_a_push_of_a_thousand_partitions_is_read_to_its_end() -> None:
    """As Java sends them: each metric in a resource of its own, with the client's labels and a partition's."""
    labels = {f"label{number}": "x" for number in range(5)}
    partition = pushed({f"{PREFIX}fetch.manager.records.lag": 1.0}, labels)
    assert said(partition * 4_000 + pushed({POLLS: 1.0}, labels)).figures == {"time_between_poll_max_ms": 1}


def test_the_library_is_imported_only_where_it_is_used() -> None:
    """A daemon that takes no metrics runs without the extra, and starts without its half second."""
    shown = "[name for name in sys.modules if 'opentelemetry' in name]"
    code = f"import sys, coordinator.daemon.daemon; print({shown})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"


def test_the_double_makes_what_opentelemetrys_own_class_reads() -> None:
    data = MetricsData.FromString(pushed({POLLS: 1.0}))
    assert data.resource_metrics[0].scope_metrics[0].metrics[0].name == POLLS
