"""The question to the transaction coordinator whether a batch may begin a transaction on a partition.

Without it, a batch that arrives late, after its transaction has ended, would open a transaction that never ends
(KIP-890). Produce and TxnOffsetCommit ask; the coordinator's side is not here. Knows only error codes and names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

Outcomes: TypeAlias = dict[TopicPartition, ErrorCode]
"""The outcome for each partition that was asked about: NONE if the batch may be appended."""

OnVerified: TypeAlias = Callable[[Outcomes], None]
"""Called with the outcomes once all are known."""


class TransactionVerifier(Protocol):
    """The transaction coordinator, as the data plane uses it; runs on the event-loop thread."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        add: bool,
        done: OnVerified,
    ) -> None:
        """Call `done`, now or later, with whether each of `partitions` is part of the producer's transaction.

        Without `add` (transaction protocol v1) the client has to have added the partitions before: the outcome of
        one that it has not added is INVALID_TXN_STATE. With `add` (v2) they are added, and the transaction begins
        with the first. Other errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
        """
        ...
