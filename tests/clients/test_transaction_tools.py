"""`kafka-transactions`, unchanged, on a transaction whose client is gone: listed, described, and ended by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from harness.observer import Observer, unique
from harness.processes import wait_until
from tests.clients.committed import CommittedView
from tests.clients.fleet import DEADLINE_S, Fleet

TRANSACTIONS = "TransactionsCommand"
TIMEOUT_S = 20
TIMEOUT_MS = 600_000  # The transaction's timeout: long enough that only the tool ends it.

pytestmark = pytest.mark.usefixtures("java")


@dataclass
class Open:
    """A transaction with one record in partition 0 of `topic`, which its producer will not end."""

    topic: str
    transactional_id: str
    producer: Producer


@pytest.fixture
def left_open(fleet: Fleet, observer: Observer) -> Open:
    topic, transactional_id = observer.create_topic("left-open", 1), unique("left")
    settings = {"bootstrap.servers": observer.bootstrap, "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer({**settings, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "of the open transaction", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    observer.write(topic, ["behind it"], 0)
    return Open(topic, transactional_id, producer)


@pytest.fixture
def broker_id(observer: Observer) -> str:
    """Of the broker; a node in front of it has a greater one."""
    return str(
        min(AdminClient({"bootstrap.servers": observer.bootstrap}).list_topics(timeout=TIMEOUT_S).brokers)
    )


def test_an_open_transaction_is_listed_and_described(left_open: Open, fleet: Fleet, broker_id: str) -> None:
    transactional_id = left_open.transactional_id
    rows = table(fleet.run_tool(TRANSACTIONS, "list"))
    (listed,) = [row for row in rows if row["TransactionalId"] == transactional_id]
    assert listed["TransactionState"] == "Ongoing"
    assert listed["Coordinator"] == broker_id
    (described,) = table(fleet.run_tool(TRANSACTIONS, "describe", "--transactional-id", transactional_id))
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TransactionTimeoutMs"] == str(TIMEOUT_MS)
    assert described["TopicPartitions"] == f"{left_open.topic}-0"
    # Its coordinator knows it, and will end it in its time: nothing hangs.
    assert table(fleet.run_tool(TRANSACTIONS, "find-hanging", "--broker-id", broker_id)) == []


def test_a_transaction_is_aborted_by_hand(left_open: Open, fleet: Fleet, observer: Observer) -> None:
    view = CommittedView(observer.bootstrap, left_open.topic, 1)
    partition = ("--topic", left_open.topic, "--partition", "0")
    producers = table(fleet.run_tool(TRANSACTIONS, "describe-producers", *partition))
    starts = [row["CurrentTransactionStartOffset"] for row in producers]
    assert sorted(starts) == ["0", "None"], "of the open transaction, and of the observer's producer"
    assert view.values() == []
    fleet.run_tool(TRANSACTIONS, "abort", *partition, "--start-offset", "0")
    wait_until(lambda: view.values() == ["behind it"], "what was held up", DEADLINE_S)
    view.close()


def table(printed: str) -> list[dict[str, str]]:
    """The rows that the tool printed below its head, by the names there."""
    head, *rows = [line.split() for line in printed.splitlines() if line.strip()]
    return [dict(zip(head, row, strict=False)) for row in rows]
