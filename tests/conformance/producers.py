"""A producer with a transactional id, by hand: it remembers the id and epoch that it was given last.

Every verb sends one request with any field changed that a script names, and expects `error`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.conformance.actors import TOPIC
from tests.conformance.run import OBSERVER, POLL_S, Run
from tests.fields import with_fields

INIT: Final = range(6)
ADD: Final = range(6)
ADD_OFFSETS: Final = range(5)
END: Final = range(6)
LIST_TRANSACTIONS: Final = range(3)
CLASSIC_ADD: Final = range(4)
BATCHED_ADD: Final = range(4, 6)
CLASSIC_END: Final = range(5)
RESUMING: Final = range(3, 6)

BUMPING_SINCE: Final = 5
TIMEOUT_MS: Final = 600_000
"""No transaction of a scenario runs into it."""
SETTLED_WITHIN_S: Final = 20.0
VERIFIED: Final[dict[str, Any]] = {"on": "delayed", "in_turn": "verification"}
"""For cases in which a partition is not in the transaction: on a broker where no other case has that verified, and
one after the other. Kafka verifies for several requests at once, and refuses them all with the code (48 or 120)
that the version of the first of them knows."""

FENCED: Final = ErrorCode.PRODUCER_FENCED
OLD_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE: Final = ErrorCode.INVALID_TXN_STATE
UNMAPPED: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING

Topics = dict[str, list[int]]


def topics_of(topics: Topics) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=list(each)) for name, each in topics.items()]


def fenced(version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED, as clients of `version` know it."""
    return FENCED if version >= since else OLD_EPOCH


@dataclass
class Producer:
    """A producer that writes under one transactional id of the run."""

    run: Run
    name: str = "producer"
    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def transactional_id(self) -> str:
        return f"{self.run.name}/{self.name}"

    def twin(self) -> Producer:
        """Another process with the same transactional id, that believes what this one does now."""
        return Producer(self.run, self.name, self.producer_id, self.producer_epoch)

    async def _ask(self, request: Any, version: int, note: str, error: int | None) -> Any:
        return await self.run.answer(await self.run.send(self.name, request, version, note), error)

    async def init(
        self, version: int = 5, error: int = 0, note: str = "", **changed: Any
    ) -> InitProducerIdResponse:
        """Send InitProducerId; keep the id and epoch of the answer."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        reply: InitProducerIdResponse = await self._ask(with_fields(request, **changed), version, note, error)
        if not reply.error_code:
            self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        return reply

    async def resume(self, version: int = 5, error: int = 0, note: str = "", **changed: Any) -> Any:
        """Send InitProducerId with the id and epoch of this producer (KIP-360)."""
        own = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        return await self.init(version, error, note, **(own | changed))

    def transaction(
        self, topics: Topics, verify_only: bool = False, **changed: Any
    ) -> AddPartitionsToTxnTransaction:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            verify_only=verify_only,
            topics=topics_of(topics),
        )
        return with_fields(transaction, **changed)

    async def add(
        self, version: int = 3, error: int = 0, note: str = "", topics: Topics | None = None, **changed: Any
    ) -> None:
        """Add partitions; all of them are answered with `error`."""
        one = self.transaction({TOPIC: [0, 1]} if topics is None else topics, **changed)
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=one.transactional_id,
                v3_and_below_producer_id=one.producer_id,
                v3_and_below_producer_epoch=one.producer_epoch,
                v3_and_below_topics=one.topics,
            )
        else:
            request = AddPartitionsToTxnRequest(transactions=[one])
        reply = await self._ask(request, version, note, None)
        results = [topic for each in reply.results_by_transaction for topic in each.topic_results]
        results += reply.results_by_topic_v3_and_below
        errors = {each.partition_error_code for topic in results for each in topic.results_by_partition}
        self.run.expect(errors <= {error}, f"AddPartitionsToTxn v{version} ({note}): {errors}, not {error}")

    async def add_offsets(self, version: int = 4, error: int = 0, note: str = "", **changed: Any) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=self.run.group,
        )
        await self._ask(with_fields(request, **changed), version, note, error)

    async def end(
        self, committed: bool, version: int = 4, error: int = 0, note: str = "", **changed: Any
    ) -> EndTxnResponse:
        """Commit or abort; a producer of transactions v2 goes on with what it is given."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        word = f"{'commit' if committed else 'abort'}{', ' + note if note else ''}"
        reply: EndTxnResponse = await self._ask(with_fields(request, **changed), version, word, error)
        if version >= BUMPING_SINCE and not reply.error_code:
            self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        return reply

    # From outside.

    async def look(self) -> DescribedTransaction:
        """The transaction as it stands, kept out of the transcript."""
        connection = await self.run.free_connection(OBSERVER)
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (state,) = (await connection.send(request, 0)).transaction_states
        assert isinstance(state, DescribedTransaction)
        return state

    async def described(self, state: str) -> None:
        """Enter the transaction into the transcript once it is in `state`, which is expected."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        seen = await self.look()
        while seen.transaction_state != state:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(POLL_S)
            seen = await self.look()
        self.run.saw(f"{self.name} described", seen)
        self.run.expect(
            seen.transaction_state == state, f"{self.name}: {seen.transaction_state}, not {state}"
        )

    async def bring_to(self, state: str, version: int = 4) -> None:
        """Bring the transaction from nothing to `state`, in the way of clients of EndTxn `version`."""
        await self.init()
        if state == "Empty":
            return
        await self.add(3 if version < BUMPING_SINCE else 5)
        if state != "Ongoing":
            await self.end(state == "CompleteCommit", version)
        await self.described(state)
