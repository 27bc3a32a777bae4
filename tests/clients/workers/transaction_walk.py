"""Transactions, step by step, each with its outcome asserted; the same steps for every client library.

Given an empty `topic` of one partition, a `source` of one partition with `records` records, and a `group` and a
`transactional_id` that are new. A library fills in the calls; those of one that blocks are coroutines that do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from harness.reporting import Config, eventually_async, require, require_equal, step

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
LATE_MS = 4_000
"""The timeout of a transaction that nobody ends. Its record is to be there before, also on a busy machine."""

P = TypeVar("P")  # A producer of the library,
C = TypeVar("C")  # and a consumer.


class TransactionWalk(ABC, Generic[P, C]):
    """The steps of a transactional producer in one library; `producer` is the present one."""

    producer: P

    def __init__(self, config: Config) -> None:
        self.config = config
        self.topic: str = config["topic"]

    async def run(self) -> None:
        self.producer = await self.new_producer()
        await self.commit()
        await self.abort()
        await self.offsets()
        await self.fencing()
        await self.timeout()

    async def commit(self) -> None:
        with step("commit"):
            before = await self.end(READ_COMMITTED)
            await self.write("committed")
            require_equal(await self.end(READ_COMMITTED), before, "the last stable offset")
            require(await self.end(READ_UNCOMMITTED) > before, "the log's end")
            await self.commit_transaction()
            require_equal(await self.read(READ_COMMITTED, 1), ["committed"], "records")

    async def abort(self) -> None:
        with step("abort"):
            await self.write("aborted")
            await self.abort_transaction()
            await self.write("after")
            await self.commit_transaction()
            require_equal(await self.read(READ_COMMITTED, 2), ["committed", "after"], "what is committed")
            everything = await self.read(READ_UNCOMMITTED, 3)
            require_equal(everything, ["committed", "aborted", "after"], "all")

    async def offsets(self) -> None:
        with step("offsets"):
            async with self.source_consumer() as consumer:
                await self.begin_transaction()
                await self.send_offsets(consumer, 3)
                await self.commit_transaction()
                require_equal(await self.committed(consumer), 3, "committed offset")
                await self.begin_transaction()
                await self.send_offsets(consumer, 5)
                await self.abort_transaction()
                require_equal(await self.committed(consumer), 3, "committed offset after an abort")

    async def fencing(self) -> None:
        with step("fencing"):
            await self.write("of the first life")
            second = await self.new_producer()
            self.require_fenced(await self.failure())
            self.producer = second
            await self.commit_one("of the second life")
            await self.require_last("of the second life")

    async def timeout(self) -> None:
        with step("timeout"):
            self.producer = await self.new_producer("-late", LATE_MS)
            await self.write("late")
            await eventually_async(self.is_settled, "the coordinator aborts what no client ends")
            self.require_overdue(await self.failure())
            await self.require_last("of the second life")

    async def require_last(self, value: str) -> None:
        require_equal((await self.read(READ_COMMITTED, 3))[-1], value, "the last record")

    async def is_settled(self) -> bool:
        return await self.end(READ_COMMITTED) == await self.end(READ_UNCOMMITTED)

    async def commit_one(self, value: str) -> None:
        """Commit a transaction of one record."""
        await self.write(value)
        await self.commit_transaction()

    async def failure(self) -> Any:
        """The error of a commit that has to fail."""
        error = await self.commit_error()
        if error is None:
            raise AssertionError("committed, though another life has begun or the time was over")
        return error

    # What a library fills in.

    @abstractmethod
    async def new_producer(self, suffix: str = "", timeout_ms: int = 30_000) -> P:
        """A producer with an id and epoch, of the transactional id with `suffix`."""

    @abstractmethod
    def source_consumer(self) -> AbstractAsyncContextManager[C]:
        """A consumer of the source, in the group where the library needs that to commit in a transaction."""

    @abstractmethod
    async def begin_transaction(self) -> None: ...

    @abstractmethod
    async def commit_transaction(self) -> None: ...

    @abstractmethod
    async def abort_transaction(self) -> None: ...

    @abstractmethod
    async def write(self, value: str) -> None:
        """Deliver a record in a new transaction, and leave the transaction open."""

    @abstractmethod
    async def send_offsets(self, consumer: C, offset: int) -> None: ...

    @abstractmethod
    async def committed(self, consumer: C) -> int: ...

    @abstractmethod
    async def commit_error(self) -> Any | None:
        """The error that refuses a commit."""

    @abstractmethod
    def require_fenced(self, error: Any) -> None:
        """Raise unless the error says that another producer has begun."""

    def require_overdue(self, error: Any) -> None:
        """Raise unless the error says that the transaction timed out; some libraries do not say it."""

    @abstractmethod
    async def read(self, isolation: str, count: int) -> list[str]:
        """The first `count` records that can be seen."""

    @abstractmethod
    async def end(self, isolation: str) -> int: ...
