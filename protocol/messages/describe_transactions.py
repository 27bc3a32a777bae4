"""DescribeTransactions (key 65): how the transactions of some transactional ids stand (KIP-664).

There is one version, and it is flexible.
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """The transactional ids to describe; an empty list asks for none."""

    transactional_ids: list[str]


@struct
class TransactionTopic:
    """Partitions of one topic that are part of the transaction."""

    topic: str
    partitions: list[Int32]


@struct
class DescribedTransaction:
    """One transactional id; with an error all but its name is empty or 0."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0  # -1: none has begun.
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TransactionTopic] = field(default_factory=list)


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """One entry per transactional id, in the order that was asked."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction] = field(default_factory=list)
