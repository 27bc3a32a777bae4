"""AddPartitionsToTxn (key 24): partitions become part of a producer's transaction (KIP-98).

Up to version 3 a client speaks of its one transaction and the answer is flat; from version 4 on brokers
speak of many, and may only ask whether partitions are part of one (KIP-890).

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | clients understand PRODUCER_FENCED (KIP-588) |
| 3 | flexible |
| 4 | several transactions at once; `verify_only`; one error for the whole (KIP-890) |
| 5 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class AddPartitionsToTxnTopic:
    """Some partitions of one topic."""

    name: str
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    """One transaction, and the partitions to add to it or, with `verify_only`, to look for in it."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@request(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """One transaction in the flat fields up to version 3, several in `transactions` after."""

    transactions: list[AddPartitionsToTxnTransaction] = since(4, default_factory=list)
    v3_and_below_transactional_id: str = since(0, until=3, default="")
    v3_and_below_producer_id: Int64 = since(0, until=3, default=0)
    v3_and_below_producer_epoch: Int16 = since(0, until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = since(0, until=3, default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """The results for some partitions of one topic."""

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """The result for one transaction."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """The results: `results_by_topic_v3_and_below` up to version 3, the other fields after."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4, default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = since(
        0, until=3, default_factory=list
    )
