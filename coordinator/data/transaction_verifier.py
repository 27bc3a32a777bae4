"""Whether a transactional batch may begin a transaction on a partition, asked of the transaction coordinator.

Without that a batch that arrives late, after its transaction has ended, would open another that never ends
(KIP-890). Produce and TxnOffsetCommit ask; the coordinator's side is not here. Knows nothing but the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

Outcomes: TypeAlias = dict[TopicPartition, ErrorCode]
"""The outcome for each partition that was asked for: NONE where the batch may be appended."""

Verified: TypeAlias = Callable[[Outcomes], None]
"""Called with the outcomes once all are known."""


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
        """Call `done`, now or later, with whether each of `partitions` is part of the producer's transaction.

        Without `add` (transaction protocol v1) the client has added them before: INVALID_TXN_STATE for one that
        it has not. With `add` (v2) they are added, and the transaction begins with the first of them. Errors
        are the coordinator's own: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_TXN_STATE.
        """
        ...
