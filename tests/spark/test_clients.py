"""What all parts ask of a cluster: offsets of logs and of groups, each partition's answer or error by itself."""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from muster.spark import clients
from muster.spark.clients import EARLIEST, LATEST, committed_offsets, log_offsets
from protocol.topic_partition import TopicPartition

GONE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Admin:
    """Answers for `t-0`, and refuses any other partition."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[tuple[str, int]], IsolationLevel, float]] = []

    def list_offsets(
        self, wanted: dict[ClientPartition, Any], isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[ClientPartition, Future[Any]]:
        self.asked.append(({(at.topic, at.partition) for at in wanted}, isolation_level, request_timeout))
        answers: dict[ClientPartition, Future[Any]] = {at: Future() for at in wanted}
        for at, answer in answers.items():
            if (at.topic, at.partition) == ("t", 0):
                answer.set_result(SimpleNamespace(offset=7))
            else:
                answer.set_exception(KafkaException(GONE))
        return answers


def test_each_log_has_its_answer_or_its_error() -> None:
    admin = Admin()
    answer = log_offsets(cast(AdminClient, admin), {FIRST: LATEST, SECOND: EARLIEST}, timeout_s=3.0)
    assert answer.found == {("t", 0): 7}
    assert {where: error.code() for where, error in answer.refused.items()} == {("t", 1): GONE.code()}
    with pytest.raises(KafkaException) as raised:
        answer.all()
    assert raised.value.args[0].code() == GONE.code()
    assert admin.asked == [({("t", 0), ("t", 1)}, IsolationLevel.READ_UNCOMMITTED, 3.0)]


def test_the_end_of_what_is_committed_is_asked_for_as_such() -> None:
    admin = Admin()
    assert log_offsets(cast(AdminClient, admin), {FIRST: LATEST}, committed_only=True).all() == {("t", 0): 7}
    assert log_offsets(cast(AdminClient, admin), {}, committed_only=True).all() == {}
    assert [level for _, level, _ in admin.asked] == [IsolationLevel.READ_COMMITTED]


def test_what_is_committed_leaves_out_what_is_not_and_keeps_errors() -> None:
    offsets = {0: 5, 1: -1001, 2: 0, 3: -1001}

    def committed(asked: list[ClientPartition], timeout_s: float) -> list[Any]:
        assert timeout_s == 2.0
        return [
            SimpleNamespace(
                topic=at.topic,
                partition=at.partition,
                offset=offsets[at.partition],
                error=GONE if at.partition == 3 else None,
            )
            for at in asked
        ]

    consumer = cast(Consumer, SimpleNamespace(committed=committed))
    answer = committed_offsets(consumer, [TopicPartition("t", partition) for partition in offsets], 2.0)
    assert (answer.found, answer.refused) == ({("t", 0): 5, ("t", 2): 0}, {("t", 3): GONE})
    assert committed_offsets(consumer, [], 9.0) == ({}, {})


def test_no_other_module_makes_a_client() -> None:
    own = Path(clients.__file__)
    makers = [
        path.name
        for path in own.parent.rglob("*.py")
        if re.search(r"\b(AdminClient|Consumer|Producer)\(", path.read_text(encoding="utf-8"))
    ]
    assert makers == [own.name]
