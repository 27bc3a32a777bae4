"""Cold: what test suites meet, a server in its first seconds. It starts, does a little, and stops.

A few groups join, commit and produce a little, of a directory that is new. Kafka's storage is formatted before the
clock runs. The CPU is that of the whole life of the process, its stop included.
"""

from __future__ import annotations

import resource
import shutil
import time
from statistics import median
from typing import Final

from bench.paired_loads import OFFSETS_OF_A_COMMIT, Sender, exchange
from bench.pairs import frames
from bench.pairs.crowd import joined
from bench.pairs.frames import COMMIT
from bench.pairs.lanes import LoadError, ask
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section
from bench.pairs.singles import TOPIC, errors_in, make_topic
from bench.pairs.starts import TABLE, row
from bench.pairs.storms import NO_DELAY
from bench.pairs.targets import judged
from harness.processes import ServerProcess
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record, encode_batch

MEMBERS: Final = 3
VALUE: Final = bytes(100)
RECORDS_OF_A_BATCH: Final = 100
PRODUCE_VERSION: Final = 9
JVM_STOPPED: Final = 143
"""The status of a JVM that ended well on a SIGTERM."""


def cold(plan: Plan) -> list[Section]:
    times: dict[str, list[float]] = {name: [] for name in (*plan.builds, KAFKA)}
    cpu_s: dict[str, list[float]] = {name: [] for name in times}
    for number in range(plan.start_warm_ups + plan.rounds):
        for name in times:
            took_s, cost_s = _life(_server(plan, name, number), plan)
            if number >= plan.start_warm_ups:
                times[name].append(took_s)
                cpu_s[name].append(cost_s)
    rows = [row(name, times[name], cpu_s[name]) for name in times]
    ratios = [median(times[name]) / min(times[KAFKA]) for name in plan.builds]
    title = (
        f"Cold: start, {plan.cold_groups} groups of {MEMBERS} join, {plan.cold_commits:,} commits, "
        f"{plan.cold_records:,} records, stop"
    )
    conditions = (
        f"Default settings on both sides, but no initial delay. {plan.rounds} lives of each in turns, each in a "
        f"directory that is new, after {plan.start_warm_ups} that does not count; Kafka's storage is formatted "
        f"before. One commit in flight for each group, one batch of {RECORDS_OF_A_BATCH} records in flight. The "
        f"time is from the start of the process to its end; Kafka's best against the median of ours."
    )
    return [Section(title, [TABLE, *rows], [judged("cold.time", plan, ratios)], conditions)]


def _server(plan: Plan, name: str, number: int) -> ServerProcess:
    if name == KAFKA:
        return plan.new_kafka(NO_DELAY, f"kafka-{number}")
    return plan.muster(f"{name}-{number}", NO_DELAY, plan.builds[name])


def _life(server: ServerProcess, plan: Plan) -> tuple[float, float]:
    """Seconds from the start of the process to its end, and all CPU that it used."""
    server.prepare()
    before, start = _cpu_of_children_s(), time.perf_counter()
    with server:
        work(server, plan)
        if (status := server.terminate()) not in (0, JVM_STOPPED):
            raise LoadError(f"{server} ended with status {status}\n{server.log_tail()}")
        took_s = time.perf_counter() - start
    cost_s = _cpu_of_children_s() - before
    shutil.rmtree(server.data_dir)
    return took_s, cost_s


def _cpu_of_children_s() -> float:
    """Of the processes that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def work(server: ServerProcess, plan: Plan) -> None:
    """What a life does between start and stop: groups join and commit, records are produced."""
    make_topic(server, partitions=plan.cold_groups)
    group_ids = [f"cold-{index:05d}" for index in range(plan.cold_groups)]
    made = joined(server.port, group_ids, MEMBERS)
    senders = []
    for connection, member in made[: plan.cold_groups]:  # Neighbours are of different groups.
        wanted = [frames.commit(member, TOPIC, [0], offset) for offset in OFFSETS_OF_A_COMMIT]
        answer = ask(connection, wanted[0])
        if any(errors_in(COMMIT, answer)):
            raise LoadError(f"a commit of {member.group_id} was refused")
        connection.setblocking(False)
        senders.append(Sender(connection, wanted, answer))
    exchange(senders, plan.cold_commits // plan.cold_groups)
    _produce(server, plan.cold_records // RECORDS_OF_A_BATCH)
    for connection, _ in made:
        connection.close()


def _produce(server: ServerProcess, batches: int) -> None:
    """So many batches into the topic's first partition, one after the other, kept by all replicas."""
    record = Record(None, VALUE, int(time.time() * 1000))
    batch = bytes(encode_batch([record] * RECORDS_OF_A_BATCH))
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    with WireClient(server.bootstrap) as client:
        for number in range(batches):
            answer = client.ask(request, PRODUCE_VERSION).responses[0].partition_responses[0]
            if (answer.error_code, answer.base_offset) != (ErrorCode.NONE, number * RECORDS_OF_A_BATCH):
                raise LoadError(f"batch {number} was answered {answer}")
