"""Producer epochs of shards: InitProducerId under a transactional id of each.

Nothing is ever written in a transaction. The id is there for the counter behind it, which no two nodes are given
the same number of.
"""

from __future__ import annotations

from typing import Final

from coordinator.backing.claims import Writer
from coordinator.backing.kafka.cluster import BackingCluster, UnavailableError, error_of
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest

TRANSACTION_KEY: Final = 1  # Of FindCoordinator.
TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's default; nothing is ever in one.


class Epochs:
    """The next epoch of any shard of one topic."""

    def __init__(self, cluster: BackingCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._coordinators: dict[str, int] = {}

    async def next_epoch(self, partition: int) -> Writer:
        """An epoch that nobody else has and that is above all given before. Raises BackingError."""
        return await self.of(f"muster.{self._topic}.{partition}")

    async def of(self, transactional_id: str) -> Writer:
        """The next epoch under any transactional id. Raises BackingError."""
        try:
            return await self._asked(transactional_id)
        except UnavailableError:
            self._coordinators.pop(transactional_id, None)
            raise

    async def _asked(self, transactional_id: str) -> Writer:
        node_id = self._coordinators.get(transactional_id)
        if node_id is None:
            found = await self._cluster.ask_any(
                FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY), max_version=3
            )
            _check("looking for its coordinator", transactional_id, found.error_code)
            node_id = self._coordinators[transactional_id] = found.node_id
        answer = await self._cluster.ask(
            node_id,
            InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            ),
        )
        _check("InitProducerId", transactional_id, answer.error_code)
        return Writer(answer.producer_id, answer.producer_epoch)


def _check(what: str, transactional_id: str, error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        raise UnavailableError(f"{what}, transactional id {transactional_id}: {error_of(error_code).name}")
