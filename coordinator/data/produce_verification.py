"""Verifies batches of Produce that begin a transaction on their partition with the coordinator (KIP-890).

All batches of one request are verified at once, since asking may cost the coordinator a write. Up to Produce
version 11 the client has added the partitions to its transaction before, and the coordinator confirms that; from
12 on the verification adds them. Then the coordinator may still be ending the previous transaction: it is asked
again for a short time, as in Kafka's broker, so that clients rarely see CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.data.broker import Broker
from coordinator.data.transaction_verifier import OnVerified, Outcomes, TransactionVerifier
from coordinator.purgatory.delayed import DelayedOperation
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

ADDS_SINCE: Final = 12
"""The version of Produce from which on producing adds the partition to the transaction."""

ABORTABLE_SINCE: Final = 11

RETRY_MS: Final = 20  # add.partitions.to.txn.retry.backoff.ms
RETRIES_END_MS: Final = 100  # add.partitions.to.txn.retry.backoff.max.ms

UNVERIFIABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Temporary errors, answered as NOT_ENOUGH_REPLICAS: for that all producers send a batch again."""


class ProduceVerification(DelayedOperation):
    """Asks the coordinator until its answer is not CONCURRENT_TRANSACTIONS, or the time for retries is over."""

    def __init__(
        self,
        broker: Broker,
        ask: Callable[[OnVerified], None],
        may_repeat: bool,
        done: OnVerified,
    ) -> None:
        now_ms = broker.now_ms()
        super().__init__(now_ms + RETRY_MS)
        self._broker = broker
        self._ask = ask
        self._done = done
        self._asks_until_ms = now_ms + RETRIES_END_MS if may_repeat else now_ms

    def start(self) -> None:
        self._ask(self._on_outcomes)

    def _on_outcomes(self, outcomes: Outcomes) -> None:
        now_ms = self._broker.now_ms()
        if ErrorCode.CONCURRENT_TRANSACTIONS not in outcomes.values() or now_ms >= self._asks_until_ms:
            self._done(outcomes)
            return
        again = ProduceVerification(self._broker, self._ask, True, self._done)
        again._asks_until_ms = self._asks_until_ms
        self._broker.purgatory.try_complete_else_watch(again, [again], now_ms)
        self._broker.arm(again.deadline_ms)

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.start()


def ask(
    broker: Broker,
    verifier: TransactionVerifier,
    producer: tuple[str, int, int],
    partitions: list[TopicPartition],
    version: int,
    done: OnVerified,
) -> None:
    """Have `partitions` verified for Produce of `version`, then call `done`.

    `producer` is (transactional id, producer id, producer epoch).
    """
    adds = version >= ADDS_SINCE

    def ask_once(answered: OnVerified) -> None:
        verifier.verify(*producer, partitions, adds, answered)

    ProduceVerification(broker, ask_once, adds, done).start()


def refusal(error: ErrorCode, version: int) -> Refused:
    """Return the refusal of a batch for the coordinator's `error`, as clients of `version` understand it."""
    if error is ErrorCode.PRODUCER_FENCED:
        return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE) and version < ADDS_SINCE:
        is_known = version >= ABORTABLE_SINCE
        error = ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.INVALID_TXN_STATE:
        return Refused(error, "Partition was not added to the transaction")
    is_busy = error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    if error in UNVERIFIABLE or is_busy:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    return Refused(error)
