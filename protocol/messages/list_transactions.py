"""ListTransactions (key 66): the transactional ids that a broker coordinates (KIP-664).

| version | what is new |
|---|---|
| 1 | only those whose transaction has lasted longer than this (KIP-994) |
| 2 | only those whose id matches a regular expression (KIP-1152) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Filters, all of which a transactional id has to pass to be listed; an empty filter lets all pass."""

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


@struct
class ListedTransaction:
    """One transactional id."""

    transactional_id: str
    producer_id: Int64
    transaction_state: str


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The ids that passed; `unknown_state_filters` are the states asked for that do not exist."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[ListedTransaction] = field(default_factory=list)
