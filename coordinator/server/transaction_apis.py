"""The transaction APIs' way from a connection to the shards and back.

A request for one transactional id goes to the shard that owns it, one for several is split. A producer id is at
hand before a request that may need one is looked at. Knows no rules of transactions.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from coordinator.data.producer_ids import ProducerIds
from coordinator.runtime.loop import Runtime
from coordinator.server.api_table import Handler
from coordinator.server.pending import Pending
from coordinator.server.splitting import SplitPlan, ask_all, context_of, first_error, reply, split
from coordinator.transactions.add_partitions import BATCHED_SINCE
from coordinator.transactions.list_transactions import unknown_states
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


class TransactionApis:
    """The handlers of the transaction APIs, for the API table.

    `without_transactions` is the handler of InitProducerId for producers without a transactional id.
    """

    def __init__(self, runtime: Runtime, producer_ids: ProducerIds, without_transactions: Handler) -> None:
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._without_transactions = without_transactions

    def handlers(self) -> dict[int, Handler]:
        return {
            22: self.init_producer_id,
            24: self.add_partitions,
            25: self.route,  # AddOffsetsToTxn
            26: self.route,  # EndTxn
            65: self.describe_transactions,
            66: self.list_transactions,
        }

    def route(self, request: Any, pending: Pending) -> None:
        """Hand the request to the shard of `request.transactional_id`."""
        self._route(request.transactional_id, request, pending)

    def _route(self, transactional_id: str, request: Any, pending: Pending) -> None:
        runner = self._runtime.transaction_runner_for(transactional_id)
        runner.request(request, context_of(pending, pending))

    def init_producer_id(self, request: InitProducerIdRequest, pending: Pending) -> None:
        if request.transactional_id is None:
            self._without_transactions(request, pending)
        else:
            self._producer_ids.when_ready(lambda: self.route(request, pending))

    def add_partitions(self, request: AddPartitionsToTxnRequest, pending: Pending) -> None:
        """AddPartitionsToTxn (key 24): one transaction up to v3, several from v4 (KIP-890), each answered once."""
        if pending.api_version < BATCHED_SINCE:
            self._route(request.v3_and_below_transactional_id, request, pending)
            return
        transactions = list({each.transactional_id: each for each in request.transactions}.values())

        def part(positions: list[int]) -> AddPartitionsToTxnRequest:
            return AddPartitionsToTxnRequest(transactions=[transactions[position] for position in positions])

        def merge(results: list[Any]) -> AddPartitionsToTxnResponse:
            return AddPartitionsToTxnResponse(results_by_transaction=results)

        self._split(
            [each.transactional_id for each in transactions], pending, part, "results_by_transaction", merge
        )

    def describe_transactions(self, request: DescribeTransactionsRequest, pending: Pending) -> None:
        def part(positions: list[int]) -> DescribeTransactionsRequest:
            asked = [request.transactional_ids[position] for position in positions]
            return DescribeTransactionsRequest(transactional_ids=asked)

        def merge(states: list[Any]) -> DescribeTransactionsResponse:
            return DescribeTransactionsResponse(transaction_states=states)

        self._split(request.transactional_ids, pending, part, "transaction_states", merge)

    def _split(
        self, transactional_ids: list[str], pending: Pending, part: Any, field: str, merge: Any
    ) -> None:
        runtime = self._runtime
        plan = SplitPlan(
            lambda position: runtime.transaction_runner_for(transactional_ids[position]),
            part,
            lambda response: list(getattr(response, field)),
            merge,
        )
        split(len(transactional_ids), plan, pending, runtime)

    def list_transactions(self, request: ListTransactionsRequest, pending: Pending) -> None:
        """ListTransactions (key 66): the transactions of all shards, or an error without transactions."""

        def merge(responses: list[ListTransactionsResponse]) -> None:
            if error := first_error(responses):
                pending.reply(ListTransactionsResponse(error_code=error))
                return
            lists = [each.transaction_states for each in responses]
            unknown = unknown_states(request)
            reply(
                pending,
                sum(map(len, lists)),
                lambda: ListTransactionsResponse(
                    unknown_state_filters=unknown, transaction_states=[*chain.from_iterable(lists)]
                ),
                runtime,
            )

        runtime = self._runtime
        ask_all(runtime.transaction_runners, request, pending, merge, runtime)
