"""AddOffsetsToTxn (key 25): a group's offsets become part of a producer's transaction (KIP-98).

Clients of transaction protocol v2 leave it out: TxnOffsetCommit adds by itself (KIP-890).

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | clients understand PRODUCER_FENCED (KIP-588) |
| 3 | flexible |
| 4 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
"""

from protocol.codec.codec import request, response
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """A transaction to which the `__consumer_offsets` partition of a group is to be added."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Whether the partition was added, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
