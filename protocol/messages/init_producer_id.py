"""InitProducerId (key 22): an idempotent or transactional producer gets its id and epoch.

Version 6 (two-phase commit, KIP-939) is unfinished in Kafka 4.3: brokers do not offer it unless
they are configured to, so it has no place here.

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
| 3 | a producer may bring the id and epoch it has and have the epoch raised (KIP-360) |
| 4 | clients understand PRODUCER_FENCED (KIP-588) |
| 5 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
"""

from protocol.codec.codec import request, response, since
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """A null transactional id asks for a producer that is idempotent and no more."""

    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@response(key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The id and epoch to produce with."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0  # 0 by schema; brokers send -1 with an error.
