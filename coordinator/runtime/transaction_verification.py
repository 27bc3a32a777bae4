"""How partitions verify transactions with the coordinator: each question is an internal AddPartitionsToTxn.

Where another broker would send that request over the wire, here it goes straight to the shard that owns
the transactional id.
"""

from __future__ import annotations

from typing import Final

from coordinator.data.transaction_verifier import OnVerified
from coordinator.effects import RequestContext
from coordinator.runtime.loop import Runtime
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.topic_partition import TopicPartition

VERSION: Final = 5
CLIENT: Final = "muster"


class VerificationRequest:
    """The `reply_to` of an internal AddPartitionsToTxn: calls `done` with each partition's error."""

    def __init__(self, done: OnVerified) -> None:
        self._done = done

    def reply(self, response: AddPartitionsToTxnResponse) -> None:
        """Call `done` with the errors; TRANSACTION_ABORTABLE (a partition not added) as INVALID_TXN_STATE."""
        (result,) = response.results_by_transaction
        self._done(
            {
                TopicPartition(topic.name, each.partition_index): _verification_error(
                    ErrorCode(each.partition_error_code)
                )
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
        )


def _verification_error(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error


class CoordinatorVerifier:
    """A TransactionVerifier over the shards of `runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.is_enabled = True
        """Whether partitions that classic clients have to add are verified; may change at run time."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        add: bool,
        done: OnVerified,
    ) -> None:
        """Verify, or with `add` add, `partitions`; call `done` with their errors, NONE while not enabled.

        Adding is done also while verification is not enabled.
        """
        if not add and not self.is_enabled:
            done(dict.fromkeys(partitions, ErrorCode.NONE))
            return
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not add,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        context = RequestContext(VerificationRequest(done), VERSION, CLIENT, "")
        runner = self._runtime.transaction_runner_for(transactional_id)
        runner.request(AddPartitionsToTxnRequest(transactions=[transaction]), context)
