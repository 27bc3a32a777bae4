"""What asks the transaction coordinator whether a transactional batch may begin a transaction on a partition.

Without that a batch that arrives late, after its transaction has ended, would open another that nobody ever
ends (KIP-890). Produce and TxnOffsetCommit ask; who answers is somebody else's matter. Knows nothing but the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

Verified = Callable[[dict[TopicPartition, ErrorCode]], None]
"""A callback with the outcome of each partition that was asked for: NONE where the batch may be appended."""


class TransactionVerifier(Protocol):
    """The transaction coordinator, as partitions see it. Runs on the event-loop thread."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        add: bool,
        done: Verified,
    ) -> None:
        """Tell `done`, now or later, whether each of `partitions` is part of the producer's transaction.

        Without `add` (transaction protocol v1) the client has added them before: INVALID_TXN_STATE for one that
        it has not. With `add` (v2) they are added, and the transaction begins with the first of them. Errors
        are the coordinator's own: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_TXN_STATE.
        """
        ...
