"""Batches in a shard's log that no owner wrote are passed over, and what they overwrite is kept, to be healed.

The cluster fences owners, not producers that know nothing of claims: a tool may write by hand, if it has the
right. Those who follow cannot recognise every such batch. An owner's claim may be compacted away, so that its
batches stand behind an older one: what has an unknown producer id may be of such an owner, and is followed. An
owner recognises all behind its own claim, and writes behind them what it has stored under their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import structlog

from coordinator.backing.claims import ClaimKind, Writer
from coordinator.backing.kafka.fetched import FetchedBatch
from protocol.errors import DecodeError
from protocol.records.batch import CorruptBatch

KEYS_BYTES_MAX: Final = 1 << 20
"""Of the keys that wait for an owner, in one shard."""
NO_PRODUCER: Final = -1

log = structlog.get_logger(__name__)


class _InForce(NamedTuple):
    offset: int
    writer: Writer


class Strays:
    """Those of one shard, as far as its log was read."""

    def __init__(self, partition: int) -> None:
        self.count = 0
        """How many were found, also again."""
        self._partition = partition
        self._in_force: _InForce | None = None  # The newest claim up to where was followed.
        self._keys: dict[bytes, None] = {}
        self._keys_bytes = 0

    def follow(
        self, batches: Iterable[FetchedBatch], follow: Callable[[FetchedBatch], None], own: Writer
    ) -> None:
        """Have the batches of owners followed, in their order, and take the others; this node writes as `own`.

        Raises CorruptBatch, DecodeError for an owner's batch, or one that may be an owner's.
        """
        for batch in batches:
            if batch.claim is not None:
                if batch.claim.kind is not ClaimKind.SEALED:
                    self._in_force = _InForce(batch.header.base_offset, batch.writer)
            elif self._is_certain(batch.writer, own):
                self.add(batch)
            else:
                self._try(batch, follow)

    def _try(self, batch: FetchedBatch, follow: Callable[[FetchedBatch], None]) -> None:
        try:
            follow(batch)
        except (CorruptBatch, DecodeError) as error:
            if self._in_force is None or batch.writer == self._in_force.writer:
                raise
            self.add(batch, str(error))

    def _is_certain(self, writer: Writer, own: Writer) -> bool:
        """Whether no owner can have written this where it is."""
        if writer.producer_id == NO_PRODUCER:
            return True
        if self._in_force is None:
            return False
        owner = self._in_force.writer
        if owner == own:
            return writer != own
        return writer.producer_id == owner.producer_id and writer.epoch < owner.epoch

    def add(self, batch: FetchedBatch, reason: str = "") -> None:
        """Take a batch of another, and its keys."""
        self.count += 1
        keys: list[bytes] = []
        if not batch.header.is_control:
            try:
                keys = [record.key for record in batch.records() if record.key is not None]
            except (CorruptBatch, DecodeError) as error:
                reason = str(error)
        for key in keys:
            if key not in self._keys and self._keys_bytes + len(key) <= KEYS_BYTES_MAX:
                self._keys[key] = None
                self._keys_bytes += len(key)
        if self.count & (self.count - 1) == 0:  # More and more seldom: there may be many.
            self._complain(batch, reason)

    def _complain(self, batch: FetchedBatch, reason: str) -> None:
        log.error(
            "a batch that no owner of this shard wrote is passed over: see who may write to the topic",
            partition=self._partition,
            offset=batch.header.base_offset,
            producer_id=batch.writer.producer_id,
            epoch=batch.writer.epoch,
            so_far=self.count,
            **({"reason": reason} if reason else {}),
        )

    def take_keys(self) -> list[bytes]:
        """The keys of all since this was last called, for an owner to write what it has stored there."""
        keys, self._keys, self._keys_bytes = list(self._keys), {}, 0
        return keys

    def forget(self) -> None:
        """The log is read anew."""
        self._in_force = None
        self.take_keys()
