"""The driver's side of members: checks, the barrier stage with its repetitions, and `stop`."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from muster.spark.clients import error_text, new_group_reader
from muster.spark.connections import ClientPropertiesError, librdkafka_security
from muster.spark.executors import CLIENTS_NEED, require_on_executors
from muster.spark.java import SparkUnavailableError
from muster.spark.members.checks import ClusterQueries, check_committed, check_options, check_settings
from muster.spark.members.member import run_member
from muster.spark.members.plan import (
    BATCH_ROWS,
    COMMIT_INTERVAL_S,
    STALL_TIMEOUT_S,
    MembersError,
    Plan,
    Positions,
    Process,
    effective_settings,
    stop_group_id,
)
from muster.spark.members.report import MemberReport, RunReport
from muster.spark.members.slots import is_cluster, require_slots
from muster.spark.packages import ship_packages

ATTEMPTS: Final = 4  # As many as Spark makes of any other task.
RETRY_SLOTS_S: Final = 120.0


def run(
    spark: SparkSession,
    bootstrap: str,
    group_id: str,
    topics: Sequence[str],
    members: int,
    process: Process,
    *,
    positions: Positions | None = None,
    continuous: bool = False,
    settings: Mapping[str, str] | None = None,
    command_config: str | os.PathLike[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    commit_interval_s: float = COMMIT_INTERVAL_S,
    stall_timeout_s: float = STALL_TIMEOUT_S,
    attempts: int = ATTEMPTS,
) -> RunReport:
    """Read `topics` as `members` members of the group, until the log ends of now are committed, or until `stop`.

    Each member hands batches of at most `batch_rows` rows to `process`, and commits what it has processed every
    `commit_interval_s`, on revocation and at the end. A `continuous` run ends by `stop` alone. `settings` are
    the stock client's, over `plan.DEFAULTS`; `command_config` is the properties file of a Kafka client, of which
    the security is taken. `process` and `positions` are sent to the executors.

    Raises MembersError: at once, before anything starts, for options that cannot be, and for more members than
    slots that are free; later when the last of `attempts` has failed. An attempt fails if one of its members
    does: its process dies, `process` raises, or the group stands still for `stall_timeout_s` with rows to read.
    """
    plan = Plan(
        bootstrap,
        group_id,
        uuid.uuid4().hex,
        topics,
        members,
        process,
        positions,
        settings=effective_settings(_given(settings, command_config), has_positions=positions is not None),
        batch_rows=batch_rows,
        commit_interval_s=commit_interval_s,
        stall_timeout_s=stall_timeout_s,
    )
    return _run_plan(spark, plan, attempts, continuous=continuous)


def stop(
    bootstrap: str,
    group_id: str,
    topic: str,
    settings: Mapping[str, str] | None = None,
    command_config: str | os.PathLike[str] | None = None,
) -> None:
    """Stop the group's run: its members finish their batch, commit and leave, and `run` returns.

    From any process, on any machine. It is a commit to the group `GROUP_ID.stop`, for `topic`, one of the
    run's; the run deletes that group when it begins and when it ends. Raises MembersError.
    """
    connection = {**_given(settings, command_config), "bootstrap.servers": bootstrap}
    consumer = new_group_reader(connection, stop_group_id(group_id))
    asked_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        answers = consumer.commit(
            offsets=[ClientPartition(topic, 0, 0, f"stop at {asked_at}")], asynchronous=False
        )
    except KafkaException as error:
        raise MembersError(f"asking group {group_id} to stop: {error_text(error)}") from error
    finally:
        consumer.close()
    if answers[0].error is not None:
        raise MembersError(f"asking group {group_id} to stop: {answers[0].error.str()}")


def _given(
    settings: Mapping[str, str] | None, command_config: str | os.PathLike[str] | None
) -> dict[str, str]:
    """The settings, over what the properties file stands for. Raises MembersError."""
    try:
        return {**librdkafka_security(command_config), **(settings or {})}
    except ClientPropertiesError as error:
        raise MembersError(str(error)) from None


def _run_plan(spark: SparkSession, plan: Plan, attempts: int, *, continuous: bool) -> RunReport:
    """Check the plan, complete it with the log ends of now, and run it to its end. Raises MembersError."""
    check_options(plan, attempts)
    check_settings(plan)
    check_spark(spark, plan.members)
    cluster = ClusterQueries(plan.bootstrap, plan.settings)
    plan = prepare(cluster, plan, continuous=continuous)
    try:
        return _run_attempts(spark.sparkContext, plan, attempts)
    finally:
        cluster.delete_stop_group(plan.group_id)


def prepare(cluster: ClusterQueries, plan: Plan, *, continuous: bool) -> Plan:
    """The plan with the log ends of now. Raises MembersError if the topics or the group are not suitable."""
    partitions = cluster.partitions_of(plan.topics)
    cluster.check_group(plan.group_id)
    log_ends = cluster.log_ends(partitions, committed_only=False)
    check_committed(plan.group_id, cluster.committed(plan.group_id, partitions), log_ends)
    cluster.delete_stop_group(plan.group_id)
    if continuous:
        return plan
    if plan.settings["isolation.level"] == "read_committed":
        log_ends = cluster.log_ends(partitions, committed_only=True)
    return replace(plan, ends=log_ends)


def check_spark(spark: SparkSession, members: int) -> None:
    """Raises MembersError if this Spark cannot run so many members at once, or lacks what they need."""
    if not isinstance(getattr(spark, "_jsparkSession", None), JavaObject):
        raise MembersError("members need a classic Spark session: Spark Connect has no barrier stages")
    context = spark.sparkContext
    if str(context.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        raise MembersError("Spark runs no barrier stage with spark.dynamicAllocation.enabled")
    require_slots(context, members)
    # The executors of a user's own session have no Muster and perhaps no Kafka client.
    ship_packages(spark)
    if is_cluster(context):
        try:
            require_on_executors(spark, CLIENTS_NEED)
        except SparkUnavailableError as missing:
            raise MembersError(str(missing)) from None


def _run_attempts(context: SparkContext, plan: Plan, attempts: int) -> RunReport:
    """Run the members to their end, again if one of them fails. Raises MembersError if all attempts fail.

    Spark itself gives up a barrier stage with results when one of its tasks fails: what tasks have done by then
    may not be fit to be repeated. Here it is: the next attempt begins where the group has committed.
    """
    failures: list[str] = []
    while True:
        try:
            members = _run_stage(context, plan)
        except Py4JJavaError as error:
            failures.append(failure_reason(str(error.java_exception.getMessage())))
            if len(failures) == attempts:
                failed = f"the members of group {plan.group_id} failed, in attempt {attempts} of {attempts}"
                raise MembersError(f"{failed}: {failures[-1]}") from error
            # Other tasks of the attempt are being killed, and a dead executor is being replaced.
            require_slots(context, plan.members, RETRY_SLOTS_S)
        else:
            return RunReport(
                plan.group_id, plan.run_id, tuple(failures), dict(plan.ends or {}), tuple(members)
            )


def _run_stage(context: SparkContext, plan: Plan) -> list[MemberReport]:
    """Run one barrier stage with all members; return their reports. Raises Py4JJavaError if a member fails."""

    def member(_: Iterable[int]) -> Iterator[MemberReport]:
        yield run_member(plan)

    numbers = context.parallelize(range(plan.members), plan.members)
    return numbers.barrier().mapPartitions(member).collect()


def failure_reason(message: str) -> str:
    """The reason in Spark's message about a failed stage, as one line: the Python task's exception, if any."""
    lines = [line.strip() for line in message.partition("\n\tat ")[0].splitlines() if line.strip()]
    is_traceback = any("Traceback (most recent call last)" in line for line in lines)
    return lines[-1] if is_traceback else lines[0]
