"""EndTxn (key 26): commit or abort a producer's transaction (KIP-98).

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | clients understand PRODUCER_FENCED (KIP-588) |
| 3 | flexible |
| 4 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
| 5 | each transaction raises the epoch, and the answer brings the id and epoch to go on with (KIP-890) |
"""

from protocol.codec.codec import request, response, since
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """The transaction to end: committed if `committed` is True, else aborted."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@response(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """The producer's id and epoch to go on with, from version 5 on; -1 with an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
