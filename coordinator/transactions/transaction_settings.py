"""The settings this core obeys, under Kafka's names with dots as underscores, and what it asks of the shell.

Plain numbers, already checked. Defaults are those of a stock broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_TRANSACTIONAL_IDS: Final = 10_000
"""Per partition of the log, about 1 KiB each. For one more the one at rest for longest is forgotten early."""

RECORD_RESERVE_BYTES: Final = 256
"""Kept free in the record of a transaction under way, so that the one that ends it fits in the log as well."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """What the handlers of one daemon may look up; the same for all shards."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    max_record_bytes: int = 1_048_588  # As large as a batch of the transaction log may be.


@dataclass(frozen=True, slots=True)
class TransactionDeps:
    """What the core asks of the rest of the daemon; each answers at once."""

    next_producer_id: Callable[[], int | None]
    """A producer id never given before; None if there is none just now, and the client is to try again."""
    partition_count: Callable[[str], int | None]
    """How many partitions a topic has; None if there is no such topic."""
    offsets_partition: Callable[[str], int]
    """The partition of `__consumer_offsets` that keeps a group."""
