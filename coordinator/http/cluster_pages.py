"""`/api/v1/topics`, `/transactions`, `/clients` and `/settings`: what else the daemon has, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.admin.describe_configs import node_configs
from coordinator.data.broker import Broker
from coordinator.http.exchange import HttpProblem, Question, Steps
from coordinator.http.pages import Key, Page, folded, sort_of, words_of
from coordinator.http.parts import in_parts
from coordinator.http.sources import Sources
from coordinator.server.connection import Connection
from coordinator.topics.topic import Topic
from coordinator.transactions.states import AT_REST, STATE_NAMES
from coordinator.transactions.transaction import Transaction
from protocol.messages.describe_configs import ConfigSource, DescribeConfigsResourceResult

LIST: Final = frozenset({"q", "limit", "after"})
TOPIC: Final = LIST | {"name"}
TRANSACTIONS: Final = LIST | {"state", "sort"}
CLIENTS: Final = LIST | {"sort"}
PARTITIONS_AT_ONCE: Final = 200


class ClusterPages:
    """Answers what is asked of topics, transactions, connections and settings."""

    def __init__(self, sources: Sources, broker: Broker) -> None:
        self._sources = sources
        self._broker = broker
        self._registry = broker.registry

    # Topics.

    def topics(self, question: Question) -> Steps:
        """The topics by name; with `name`, that one with the groups that have offsets in it."""
        if "name" in question.query:
            yield from self._one_topic(question)
            return
        page = Page(question, "name", is_descending=False)
        text = folded(question.query.get("q", ""))
        names = tuple(self._registry.names())
        yield from page.fill(((name,), name) if text in folded(name) else None for name in names)
        found = [topic for name in page.things if (topic := self._registry.get(name)) is not None]
        yield from in_parts({"topics": map(_topic, found), "matched": page.matched, "next": page.cursor})

    def _one_topic(self, question: Question) -> Steps:
        topic = self._registry.get(question.text("name"))
        if topic is None:
            raise HttpProblem(404, "There is no such topic.")
        page = Page(question, "group", is_descending=False)
        yield from page.fill(self._groups_of(topic.name, folded(question.query.get("q", ""))))
        lag_of = self._sources.metrics.figures
        groups = (
            {"group": group_id, "lag": _lag_in(topic.name, lag_of(group_id))} for group_id in page.things
        )
        yield from in_parts({**_topic(topic), "groups": groups, "matched": page.matched, "next": page.cursor})

    def _groups_of(self, topic: str, text: str) -> Iterator[tuple[Key, str] | None]:
        """The groups that have offsets in a topic."""
        for runner in self._sources.runtime.runners:
            if (shard := runner.shard) is None:
                continue
            for group_id in shard.offsets.group_ids():
                is_wanted = bool(shard.offsets.of_topic(group_id, topic)) and text in folded(group_id)
                yield ((group_id,), group_id) if is_wanted else None

    # Transactions.

    def transactions(self, question: Question) -> Steps:
        """The transactions that are under way, the oldest first; with `state`, those in these states."""
        sort, is_descending = sort_of(question, ("age", "id"), "-age")
        page = Page(question, sort, is_descending=is_descending)
        wall_ms = self._broker.wall_ms()
        yield from page.fill(self._transactions(question, sort, wall_ms))
        yield from in_parts(
            {
                "transactions": (_transaction(each, wall_ms) for each in page.things),
                "matched": page.matched,
                "next": page.cursor,
            }
        )

    def _transactions(
        self, question: Question, sort: str, wall_ms: int
    ) -> Iterator[tuple[Key, Transaction] | None]:
        text, states = folded(question.query.get("q", "")), words_of(question, "state", STATE_NAMES.values())
        for runner in self._sources.runtime.transaction_runners:
            for each in tuple(runner.shard.transactions) if runner.shard is not None else ():
                is_wanted = STATE_NAMES[each.state].lower() in states if states else each.state not in AT_REST
                if is_wanted and text in folded(each.transactional_id):
                    age_ms = wall_ms - each.start_wall_ms if sort == "age" else 0
                    yield (age_ms, each.transactional_id), each
                else:
                    yield None

    # Clients.

    def clients(self, question: Question) -> Steps:
        """The connections of Kafka clients, by how long they are idle or by their client id."""
        sort, is_descending = sort_of(question, ("idle", "client"), "client")
        page = Page(question, sort, is_descending=is_descending)
        now_ms, text = self._broker.now_ms(), folded(question.query.get("q", ""))
        yield from page.fill(
            _client_key(each, sort, now_ms) if text in folded(each.client_id) or text in each.peer else None
            for each in self._sources.server.connections
        )
        yield from in_parts(
            {
                "clients": (_client(each, now_ms) for each in page.things),
                "matched": page.matched,
                "next": page.cursor,
            }
        )

    # Settings.

    def settings(self, question: Question) -> Steps:
        """All settings as they are in force, without the values of secret ones."""
        text = folded(question.query.get("q", ""))
        found = [each for each in node_configs(self._broker) if text in folded(each.name)]
        yield None
        yield from in_parts({"settings": map(_setting, found)})


def _topic(topic: Topic) -> dict[str, Any]:
    partitions = topic.partitions
    return {
        "topic": topic.name,
        "id": topic.topic_id.hex(),
        "partitions": len(partitions),
        "is_internal": topic.is_internal,
        "records": sum(each.high_watermark - each.log_start_offset for each in partitions),
        "size_bytes": sum(each.log.size_bytes for each in partitions),
    }


def _lag_in(topic: str, figures: Any) -> dict[str, Any] | None:
    lag = None if figures is None else figures.lag.topics.get(topic)
    return None if lag is None else {"records": lag.records, "seconds": lag.seconds}


def _transaction(transaction: Transaction, wall_ms: int) -> dict[str, Any]:
    return {
        "id": transaction.transactional_id,
        "state": STATE_NAMES[transaction.state],
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "age_ms": max(wall_ms - transaction.start_wall_ms, 0) if transaction.start_wall_ms >= 0 else None,
        "timeout_ms": transaction.timeout_ms,
        "partitions": len(transaction.partitions),
    }


def _client_key(connection: Connection, sort: str, now_ms: int) -> tuple[Key, Connection]:
    first = now_ms - connection.last_request_ms if sort == "idle" else connection.client_id
    return (first, connection.peer), connection


def _client(connection: Connection, now_ms: int) -> dict[str, Any]:
    return {
        "client": connection.client_id,
        "peer": connection.peer,
        "listener": connection.listener_name,
        "idle_ms": max(now_ms - connection.last_request_ms, 0),
    }


def _setting(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": ConfigSource(config.config_source).name,
        "is_secret": config.is_sensitive,
        "is_read_only": config.read_only,
    }
