"""What the nodes of the simulation ask each other: to write a marker, and whether a transaction has a partition.

A request is read when the other node runs, its answer when this one does. A node that dies answers nothing: then,
or where none is known to lead the shard, the outcome is that of a shard which is led elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.data.transaction_verifier import OnVerified, TransactionVerifier
from coordinator.groups.partitioning import partition_for
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker
from protocol.topic_partition import TopicPartition
from tests.simulation.timeline import Origin
from tests.simulation.transaction_side import TRANSACTION_PARTITIONS

if TYPE_CHECKING:
    from tests.simulation.two_nodes import NodeServer


@dataclass(eq=False, slots=True)
class Asked:
    """A question that a node has, and owes the other an answer; `on_lost` is called if it dies before."""

    on_lost: Callable[[], None]

    def lose(self) -> None:
        self.on_lost()


def ask(asking: NodeServer, asked: NodeServer, question: Callable[[Any], None], done: Any, lost: Any) -> None:
    """Have `asked` handle `question`, given what takes its answer, and `asking` call `done` with that."""
    home = asking.loop

    def later(action: Callable[[], None]) -> None:
        home.run_at(asking.timeline.now_ms, Origin.SOCKET, action)

    owed = Asked(lambda: later(lost))
    asked.asked.append(owed)

    def answer(outcome: Any) -> None:
        if owed in asked.asked:
            asked.asked.remove(owed)
            later(partial(done, outcome))

    asked.loop.run_at(asked.timeline.now_ms, Origin.SOCKET, partial(question, answer))


class RemoteMarkers:
    """Writes markers to the shard of groups `index`, wherever that is led."""

    def __init__(self, node: NodeServer, index: int) -> None:
        self._node = node
        self._index = index

    def write_marker(self, marker: Marker, done: OnDone) -> None:
        node, index = self._node, self._index
        leader = node.leader_of((GROUP_METADATA_TOPIC, index))
        if leader is node:
            node.runners[index].write_marker(marker, done)
        elif leader is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            ask(
                node,
                leader,
                lambda answer: leader.runners[index].write_marker(marker, answer),
                done,
                partial(done, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            )


class RemoteVerifier:
    """Asks the shard of a transactional id, wherever that is led; `own` asks this node's."""

    def __init__(self, node: NodeServer, own: TransactionVerifier) -> None:
        self._node = node
        self.own = own

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        add: bool,
        done: OnVerified,
    ) -> None:
        node = self._node
        shard = (TRANSACTION_STATE_TOPIC, partition_for(transactional_id, TRANSACTION_PARTITIONS))
        leader = node.leader_of(shard)
        about = (transactional_id, producer_id, producer_epoch, partitions, add)
        if leader is None or leader is node:
            self.own.verify(*about, done)
            return
        assert leader.transactions is not None
        verifier = leader.transactions.verifier
        assert isinstance(verifier, RemoteVerifier)
        ask(
            node,
            leader,
            lambda answer: verifier.own.verify(*about, answer),
            done,
            lambda: self.own.verify(*about, done),
        )
