"""The transaction coordinator's settings, under Kafka's names with dots as underscores, and its dependencies.

Plain numbers, already checked. Defaults are those of a stock broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_TRANSACTIONAL_IDS: Final = 10_000
"""The most ids per partition of the log, about 1 KiB each. One more removes the id that was idle for longest."""

RECORD_RESERVE_BYTES: Final = 256
"""Kept free in the record of an ongoing transaction, so that the record that ends it fits into a batch too."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The transaction coordinator's settings of one daemon, the same for all its shards."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    max_record_bytes: int = 1_048_588  # The largest batch of the transaction log.


@dataclass(frozen=True, slots=True)
class TransactionDeps:
    """Functions of the rest of the daemon that the core calls; none of them blocks."""

    next_producer_id: Callable[[], int | None]
    """Returns a producer id never used before; None if none is available now: the client has to try again."""
    partition_count: Callable[[str], int | None]
    """Returns the number of partitions of a topic; None if there is no such topic."""
    offsets_partition: Callable[[str], int]
    """The partition of `__consumer_offsets` that keeps a group."""
