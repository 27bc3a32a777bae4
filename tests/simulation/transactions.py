"""Producers that commit offsets within transactions, in both versions of the protocol.

A producer of the classic protocol adds the groups to its transaction before it commits for them; since KIP-890
they add themselves, and every transaction has an epoch of its own. One may die with its transaction open: then the
coordinator aborts that, when its time is over or when another process comes under the same transactional id, and
what the dead one still sends has to be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.log_facts import OffsetKey
from tests.simulation.network import Network
from tests.simulation.timeline import Task
from tests.simulation.wire import LOST

if TYPE_CHECKING:
    from tests.simulation.witness import Witness

REQUEST_TIMEOUT_MS: Final = 8_000
"""Longer than anything stays in the network: a request that is repeated comes after the first."""
BACKOFF_MS: Final = 200
LATE_MS: Final = 5_000
"""After so long what was lost is not on its way any more. The classic protocol does not show what belongs to an
earlier transaction of the same epoch: a classic producer repeats nothing before, and nothing of it comes twice."""
TOPIC: Final = "orders"
TIMEOUTS_MS: Final = (10_000, 60_000)

FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
REFUSED: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Nothing to do but to abort."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The versions of one transaction protocol."""

    init: int
    commit: int
    end: int
    adds_groups: bool


CLASSIC: Final = Protocol(init=4, commit=3, end=3, adds_groups=True)
LATE_CLASSIC: Final = Protocol(init=5, commit=4, end=4, adds_groups=True)
MODERN: Final = Protocol(init=5, commit=5, end=5, adds_groups=False)
PROTOCOLS: Final = (CLASSIC, LATE_CLASSIC, MODERN, MODERN)


class Fenced(Exception):
    """Another process has the transactional id, or the coordinator has aborted the transaction."""


class Refused(Exception):
    """The transaction can only be aborted."""


class Producer:
    """One transactional id, process after process."""

    def __init__(
        self,
        number: int,
        network: Network,
        witness: Witness,
        random: Random,
        group_ids: tuple[str, ...],
        offsets: Iterator[int],
    ) -> None:
        self.is_running = True
        self._transactional_id = f"t{number}"
        self._port = network.port(f"producer{number}")
        self._network = network
        self._witness = witness
        self._random = random
        self._group_ids = group_ids
        self._offsets = offsets
        self._protocol = random.choice(PROTOCOLS)
        self._producer = (-1, -1)  # Id and epoch.
        self._last_committed: dict[
            OffsetKey, int
        ] = {}  # In the transaction before, which may not be complete.
        self._task = Task(self._work())

    @property
    def is_done(self) -> bool:
        return self._task.is_done

    async def _work(self) -> None:
        while self.is_running:
            former = self._producer
            await self._init()
            await self._haunt(former)
            try:
                while self.is_running:
                    await self._network.sleep(self._random.randint(10, 4_000))
                    await self._transaction()
            except Fenced:
                pass  # And another process begins.
        await self._init()  # Whatever was under way is over when this is granted.

    async def _init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._random.choice(TIMEOUTS_MS),
        )
        while True:
            answer = await self._ask(request, self._protocol.init)
            if answer is not LOST and not answer.error_code:
                break
            await self._network.sleep(BACKOFF_MS)
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._on_complete()

    async def _haunt(self, former: tuple[int, int]) -> None:
        """A process that was fenced does not know it yet."""
        if former[0] != -1 and former != self._producer and self._random.random() < 0.5:
            key, offset = self._next()
            answer = await self._ask(self._commit_request(key, offset, former), self._protocol.commit)
            if answer is not LOST and not answer.topics[0].partitions[0].error_code:
                self._witness.violated(f"a producer that was fenced, {former}, committed {key} {offset}")

    async def _transaction(self) -> None:
        held: dict[OffsetKey, int] = {}
        wants_commit = True
        try:
            for _ in range(self._random.randint(1, 3)):
                key, offset = self._next()
                await self._hold(key, offset)
                held[key] = offset
        except Refused:
            wants_commit = False
        except Fenced:
            self._witness.transactions.on_aborted(held)
            raise
        if self._random.random() < 0.2:  # It dies, and its successor comes when it likes.
            self._witness.transactions.on_aborted(held)
            await self._network.sleep(self._random.choice((10, 3_000, 30_000)))
            raise Fenced
        await self._end(held, wants_commit and self._random.random() < 0.8)

    def _next(self) -> tuple[OffsetKey, int]:
        """What to commit next."""
        return (self._random.choice(self._group_ids), TOPIC, self._random.randrange(4)), next(self._offsets)

    async def _hold(self, key: OffsetKey, offset: int) -> None:
        """One offset becomes a part of the transaction."""
        if self._protocol.adds_groups:
            add = AddOffsetsToTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                group_id=key[0],
            )
            await self._insist(add, self._protocol.end)
            self._on_complete()
        request = self._commit_request(key, offset, self._producer)
        await self._insist(request, self._protocol.commit)
        self._on_complete()

    def _commit_request(
        self, key: OffsetKey, offset: int, producer: tuple[int, int]
    ) -> TxnOffsetCommitRequest:
        group_id, topic, partition = key
        committed = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        return TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )

    async def _end(self, held: dict[OffsetKey, int], is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=is_commit,
        )
        witness = self._witness.transactions
        try:
            answer = await self._insist(request, self._protocol.end)
        except (Fenced, Refused):
            if is_commit:
                witness.on_unsure(held)
            else:
                witness.on_aborted(held)
            raise Fenced from None
        if self._protocol is MODERN:
            self._producer = (answer.producer_id, answer.producer_epoch)
        if is_commit:
            self._last_committed = held
        else:
            witness.on_aborted(held)

    def _on_complete(self) -> None:
        """Another transaction has begun, so all of the one before is in place."""
        held, self._last_committed = self._last_committed, {}
        if held:
            self._witness.on_transaction_committed(held)

    async def _insist(self, request: Any, version: int) -> Any:
        """The answer that is none to be tried again. Raises Fenced, Refused."""
        while True:
            answer = await self._ask(request, version)
            if answer is not LOST:
                error = _error_of(answer)
                if not error:
                    return answer
                if error in FENCED:
                    raise Fenced
                if error in REFUSED:
                    raise Refused
            is_late = answer is LOST and self._protocol.adds_groups
            await self._network.sleep(LATE_MS if is_late else BACKOFF_MS)

    async def _ask(self, request: Any, version: int) -> Any:
        once = self._protocol.adds_groups
        return await self._port.call(request, version, REQUEST_TIMEOUT_MS, once=once)


def _error_of(answer: Any) -> ErrorCode:
    if hasattr(answer, "topics"):
        return ErrorCode(answer.topics[0].partitions[0].error_code)
    return ErrorCode(answer.error_code)
