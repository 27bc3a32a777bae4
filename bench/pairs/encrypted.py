"""Steady load through SASL_SSL: heartbeats, and records that are produced."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from bench.pairs import frames
from bench.pairs.crowd import ANSWER_HEADER_BYTES
from bench.pairs.frames import CLIENT_ID, CORRELATION_ID, HEARTBEAT
from bench.pairs.lanes import Lane, LoadError, ask, connect_all
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Contender, Section, Target, cpus, take_turns, throughputs
from bench.pairs.secured import CONDITIONS, SecuredRun, contending_secured, for_librdkafka
from bench.pairs.singles import lanes_of, make_topic
from bench.pairs.steady import close, conditions, lines
from bench.pairs.storms import NO_DELAY
from bench.pairs.targets import judged
from bench.throughput import Figure, Topic, client, made_topic, records_of
from harness.processes import ServerProcess, wait_until
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records.records import Record, encode_batch

PRODUCE_VERSION: Final = 9
ALL_REPLICAS: Final = -1
PRODUCED: Final = "produced"
PARTITIONS: Final = 50
RECORD_BYTES: Final = 1_024
FULL_BATCH: Final = 15
"""Records of 1 KiB that fill the 16 KiB which a Java producer gathers for a partition by default."""
LEADER_S: Final = 30.0
BULK_PARTITIONS: Final = 4
BULK_TABLE: Final = (
    "| server | MB/s, median | lowest to highest | server CPU, ms/MB | client CPU, ms/MB |\n"
    "|---|---|---|---|---|"
)
BEFORE_OFFSET_BYTES: Final = 9
"""Of an answer's body, but for the name of its topic: three lengths, the partition, its error code."""


class Learned(NamedTuple):
    """The answer to a record, and where the offset is in it, which counts on."""

    answer: bytes
    free: list[int]


def heartbeats(plan: Plan) -> list[Section]:
    """Heartbeats of members that are alone in their groups."""

    def beating(server: ServerProcess) -> list[Lane]:
        return lanes_of(server, "secured", plan.connections, frames.heartbeat, HEARTBEAT)

    with contending_secured(plan, NO_DELAY) as servers:
        contenders = _contend(plan, servers, beating, plan.warm_s)
    *ours, theirs = contenders
    targets = [
        judged("secured_heartbeats.throughput", plan, throughputs(ours, theirs)),
        judged("secured_heartbeats.cpu", plan, cpus(ours, theirs)),
    ]
    title = f"SASL_SSL: heartbeats, {plan.connections:,} connections, 1 in flight"
    return [_section(title, plan, contenders, targets, plan.warm_s)]


def produce(plan: Plan) -> list[Section]:
    """Records of 1 KiB: of one client that is busy; and of many, a full batch to a request, and one record."""
    with contending_secured(plan, NO_DELAY) as servers:
        return [
            _bulk(plan, servers),
            _produced(plan, servers, FULL_BATCH, "batches"),
            _produced(plan, servers, 1, "singles"),
        ]


def _bulk(plan: Plan, servers: Mapping[str, ServerProcess]) -> Section:
    """Of one librdkafka producer, as `bench.throughput` has it of plain listeners."""
    records = records_of(plan.bulk_megabytes, RECORD_BYTES)
    rounds: dict[str, list[Figure]] = {name: [] for name in servers}
    for number in range(1 + plan.rounds):
        topic = Topic(f"bulk-{number}", BULK_PARTITIONS, records, RECORD_BYTES)
        for name, server in servers.items():
            with made_topic(server, topic):
                rounds[name].append(client("produce", server, topic, for_librdkafka(server)))
    counted = {name: done[1:] for name, done in rounds.items()}  # Java compiles in the first.
    best = max(each.mb_per_second for each in counted[KAFKA])
    ratios = [median(each.mb_per_second for each in counted[name]) / best for name in plan.builds]
    rows = [_bulk_row(name, done) for name, done in counted.items()]
    conditions_ = (
        f"One librdkafka producer in a process of its own, acks=all, uncompressed, {BULK_PARTITIONS} partitions: "
        f"{plan.rounds} rounds of {plan.bulk_megabytes} MB of each in turns, after one that does not count; "
        f"Kafka's best round against the median of ours. {CONDITIONS}"
    )
    targets = [judged("secured_produce.bulk", plan, ratios)]
    return Section("SASL_SSL: records of 1 KiB, one busy client", [BULK_TABLE, *rows], targets, conditions_)


def _bulk_row(name: str, rounds: Sequence[Figure]) -> str:
    rates = sorted(each.mb_per_second for each in rounds)
    server_ms = median(each.server_ms_per_mb for each in rounds)
    own_ms = median(each.client_ms_per_mb for each in rounds)
    return f"| {name} | {median(rates):.0f} | {rates[0]:.0f} to {rates[-1]:.0f} | {server_ms:.2f} | {own_ms:.2f} |"


def _produced(plan: Plan, servers: Mapping[str, ServerProcess], records: int, kind: str) -> Section:
    def producing(server: ServerProcess) -> list[Lane]:
        return producers(server, plan.connections, records)

    contenders = _contend(plan, servers, producing, plan.warm_again_s)
    *ours, theirs = contenders
    targets = [judged(f"secured_produce.{kind}", plan, throughputs(ours, theirs))]
    title = (
        f"SASL_SSL: records of 1 KiB, {records} to a request, {plan.connections:,} connections, 1 in flight"
    )
    return _section(title, plan, contenders, targets, plan.warm_again_s)


def _contend(
    plan: Plan,
    servers: Mapping[str, ServerProcess],
    lanes_for: Callable[[ServerProcess], list[Lane]],
    warm_s: float,
) -> list[Contender]:
    """Every build and, last, Kafka, after their rounds."""
    contenders = [
        Contender(name, server, lanes_for(server), SecuredRun(server)) for name, server in servers.items()
    ]
    close(contenders)  # The load goes over others.
    take_turns(contenders, plan.rounds, plan.seconds, 1, warm_s)
    return contenders


def _section(
    title: str, plan: Plan, contenders: Sequence[Contender], targets: list[Target], warm_s: float
) -> Section:
    return Section(title, lines(contenders), targets, f"{conditions(plan, warm_s)} {CONDITIONS}")


def producers(server: ServerProcess, count: int, records: int = 1) -> list[Lane]:
    """`count` connections that produce `records` with each request, to some partitions of a topic in turns."""
    make_topic(server, PARTITIONS, PRODUCED)
    made = []
    for number, connection in enumerate(connect_all(server.port, count)):
        frame = _produce(number % PARTITIONS, records)

        def learned(connection: socket.socket = connection, frame: bytes = frame) -> Learned | None:
            return _learned(server, ask(connection, frame))

        answer, free = wait_until(learned, "the partition has its leader", LEADER_S)
        made.append(Lane(connection, frame, answer, free=free))
    return made


def _produce(partition: int, records: int) -> bytes:
    """A request with one batch of records whose bytes are drawn: none could be compressed on its way."""
    record = Record(None, random.Random(partition).randbytes(RECORD_BYTES), int(time.time() * 1000))
    batch = bytes(encode_batch([record] * records))
    topic = TopicProduceData(
        name=PRODUCED, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=30_000, topic_data=[topic])
    return encode_request(request, PRODUCE_VERSION, CORRELATION_ID, CLIENT_ID)


def _learned(server: ServerProcess, answer: bytes) -> Learned | None:
    """Return what an answer says if it is a good one; None if the partition was made just now.

    Raises LoadError for any other.
    """
    (topic,) = decode(ProduceResponse, PRODUCE_VERSION, answer, ANSWER_HEADER_BYTES).responses
    (partition,) = topic.partition_responses
    if partition.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return None
    offset_at = ANSWER_HEADER_BYTES + BEFORE_OFFSET_BYTES + len(topic.name)
    if partition.error_code or int.from_bytes(answer[offset_at : offset_at + 8]) != partition.base_offset:
        raise LoadError(f"{server}: a record was refused: {partition}")
    return Learned(answer, [offset_at])
