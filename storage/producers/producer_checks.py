"""What a producer's batch, or the marker that ends its transaction, must fit to be appended (KIP-98, KIP-890).

A producer that is not known, because it is new here or was forgotten, may begin at any number: Kafka answers
UNKNOWN_PRODUCER_ID no longer, since a log whose records have been deleted looks the same. Only where its
transaction is verified under protocol version 2 must it begin with 0, as each transaction has an epoch of its own.

A transaction begins on a partition with a batch that the transaction coordinator has verified: it was asked
whether the transaction includes the partition. `ProducerVerifications` are the questions that were asked: an
append of the producer meanwhile, above all of a marker, makes the answer void. So a batch that comes late never
opens a transaction that is never ended. Knows no requests and no files.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from protocol.errors import ErrorCode
from protocol.records.batch import Batch
from protocol.records.control import Marker
from storage.producers.producer_state import NO_EPOCH, Producer, ProducerState

LAST_SEQUENCE: Final = 2**31 - 1
LAST_EPOCH: Final = 2**15 - 1
EPOCH_BUMPED_SINCE: Final = 2  # The transaction version.

MAX_VERIFICATIONS: Final = 10_000
"""Verifications kept per partition, of about 100 bytes each: beyond it the oldest goes, and has to be repeated."""


class ProducerError(Exception):
    """A batch that does not fit what its producer sent before: `error` and words for the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(slots=True, eq=False)
class ProducerVerification:
    """A question to the coordinator about a producer; `lowest_sequence` is the lowest of the batches that waited.

    No batch with a higher sequence is taken before that one: else that one, sent again, would be refused for good.
    """

    epoch: int
    lowest_sequence: int
    has_own_epoch: bool  # Transaction version 2: each transaction numbers its records from 0.
    since_ms: int


class ProducerVerifications:
    """The verifications of one partition's producers, and the batches that wait for them."""

    def __init__(self) -> None:
        self._under_way: OrderedDict[int, ProducerVerification] = OrderedDict()
        self._waiting: dict[int, deque[Callable[[], None]]] = {}  # Behind a question that has no answer yet.

    def wait(self, batch: Batch, go_on: Callable[[], None]) -> bool:
        """Return whether the batch's producer is being verified; if so, `go_on` is called after the answer.

        The number of waiting callbacks is bounded by how many requests connections may have unanswered.
        """
        waiting = self._waiting.get(batch.producer_id) if batch.is_transactional else None
        if waiting is not None:
            waiting.append(go_on)
        return waiting is not None

    def answered(self, producer_id: int) -> None:
        """Call what waited for the producer's verification, in order, until one of them begins another."""
        waiting = self._waiting.pop(producer_id, deque())
        while waiting and producer_id not in self._waiting:
            waiting.popleft()()
        if waiting:
            self._waiting[producer_id].extendleft(reversed(waiting))

    def begin(self, batch: Batch, has_own_epoch: bool, wall_ms: int) -> ProducerVerification:
        """Note that the coordinator is about to be asked; return the verification to show when appending.

        `answered` has to follow.
        """
        self._waiting.setdefault(batch.producer_id, deque())
        found = self._under_way.get(batch.producer_id)
        if found is None or batch.producer_epoch > found.epoch:
            if found is None and len(self._under_way) >= MAX_VERIFICATIONS:
                self._under_way.popitem(last=False)
            found = ProducerVerification(batch.producer_epoch, batch.base_sequence, has_own_epoch, wall_ms)
            self._under_way[batch.producer_id] = found
        elif batch.producer_epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, batch.base_sequence)
        return found

    def find(self, producer_id: int) -> ProducerVerification | None:
        return self._under_way.get(producer_id)

    def end(self, producer_id: int) -> None:
        """End the producer's verification: a batch or a marker of the producer was appended."""
        self._under_way.pop(producer_id, None)

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        """Forget verifications that began `expiration_ms` ago or earlier: their producers never came back."""
        for producer_id, each in list(self._under_way.items()):
            if wall_ms - each.since_ms >= expiration_ms:
                del self._under_way[producer_id]


def check_batch(state: ProducerState, batch: Batch, verification: ProducerVerification | None) -> None:
    """Raise ProducerError unless `batch` comes next for its producer.

    INVALID_PRODUCER_EPOCH: a newer instance of the producer has written here (it is fenced).
    OUT_OF_ORDER_SEQUENCE_NUMBER: there is a gap, or a new epoch does not begin with 0.
    INVALID_TXN_STATE: it is not transactional, but its producer's transaction is open.
    """
    producer = state.find(batch.producer_id)
    if producer is not None and batch.producer_epoch < producer.epoch:
        raise ProducerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, "
            f"which is smaller than the last seen epoch {producer.epoch}",
        )
    expected = _expected_sequence(producer, batch, verification)
    if expected is not None and batch.base_sequence != expected:
        raise ProducerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: "
            f"{batch.base_sequence} (incoming seq. number), {expected} (expected)",
        )
    if state.has_open_transaction(batch.producer_id) and not batch.is_transactional:
        text = f"Expected transactional write from producer {batch.producer_id}"
        raise ProducerError(ErrorCode.INVALID_TXN_STATE, text)


def _expected_sequence(
    producer: Producer | None, batch: Batch, verification: ProducerVerification | None
) -> int | None:
    """Return the sequence that the batch must begin with; None if any is right."""
    is_blank = producer is None or not producer.batches
    if verification is not None:
        if verification.has_own_epoch and is_blank:
            return 0
        if batch.base_sequence > verification.lowest_sequence:
            return verification.lowest_sequence
    if producer is None:
        return None
    if batch.producer_epoch > producer.epoch or is_blank:
        return 0
    return 0 if producer.last_sequence == LAST_SEQUENCE else producer.last_sequence + 1


def check_verified(
    state: ProducerState, batch: Batch, known: ProducerVerification | None, shown: ProducerVerification | None
) -> None:
    """Raise ProducerError (INVALID_TXN_STATE) for a batch that would begin a transaction unverified.

    `known` is the partition's verification of the producer, `shown` the one that the batch was checked under.
    """
    goes_on = state.has_open_transaction(batch.producer_id, batch.producer_epoch)
    begins = batch.is_transactional and not goes_on
    if begins and (known is None or known is not shown):
        text = "Record was not part of an ongoing transaction"
        raise ProducerError(ErrorCode.INVALID_TXN_STATE, text)


def check_marker(state: ProducerState, marker: Marker) -> None:
    """Raise ProducerError unless `marker` may end the transaction of its producer.

    INVALID_PRODUCER_EPOCH: a newer instance has written here; under transaction version 2 also an equal epoch, but
    for a marker that is written again. TRANSACTION_COORDINATOR_FENCED: the marker is of a former coordinator.
    """
    producer = state.find(marker.producer_id)
    if producer is None:
        return
    known_epoch, epoch = producer.epoch, marker.producer_epoch
    is_repeated = epoch == known_epoch and (producer.transaction_start is None or epoch == LAST_EPOCH)
    is_bumped = marker.transaction_version >= EPOCH_BUMPED_SINCE
    if epoch < known_epoch or (is_bumped and epoch == known_epoch and not is_repeated):
        raise ProducerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {marker.producer_id} is {epoch}, the last seen epoch is {known_epoch}",
        )
    if producer.coordinator_epoch > marker.coordinator_epoch and producer.coordinator_epoch != NO_EPOCH:
        raise ProducerError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Invalid coordinator epoch for producerId {marker.producer_id}: {marker.coordinator_epoch} (zombie), "
            f"{producer.coordinator_epoch} (current)",
        )
