"""Produce, the idempotence and transactions of partitions, and what readers see of them (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
import time
from struct import pack_into
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.records.batch import CRC, CRC_POSITION, checksum
from protocol.records.records import Codec
from tests.conformance.producers import SETTLED_WITHIN_S, VERIFIED, Producer
from tests.conformance.registry import scenario
from tests.conformance.run import POLL_S, Run
from tests.conformance.writers import (
    AT_MS,
    LISTED_BY_ISOLATION,
    OLD_EPOCH,
    OUT_OF_ORDER,
    PRODUCE,
    READ,
    WRITE_MARKERS,
    Writer,
    batch,
)

LAST_SEQUENCE: Final = 2**31 - 1
DAY_MS: Final = 86_400_000


def numbered(sequence: int, *values: bytes, producer_id: int = 4711, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer, whose id no broker has given."""
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def within(producer: Producer, sequence: int, *values: bytes, epoch: int | None = None) -> bytes:
    """A batch of the producer's transaction."""
    return batch(
        *values,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        base_sequence=sequence,
        transactional=True,
    )


def with_header(data: bytes, position: int, layout: str, value: int) -> bytes:
    """`data` with one field of its header changed, and its checksum right again."""
    changed = bytearray(data)
    pack_into(layout, changed, position, value)
    CRC.pack_into(changed, CRC_POSITION, checksum(changed))
    return bytes(changed)


@scenario("P Produce: stored", versions=PRODUCE)
async def produce_what_is_sound(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    for codec in Codec:
        if codec is not Codec.ZSTD or version >= 7:
            await writer.write(batch(b"a" * 300, b"b", codec=codec), version=version, note=codec.name)
    await writer.write(batch(b"x"), version=version, note="acks 1", acks=1)
    request = writer.request((0, batch(b"a")), (2, batch(b"b")), (1, batch(b"c")), version=version)
    await writer.ask(request, version, "several partitions")
    await writer.read(isolation_level=0)


REFUSED: Final = {
    "two batches": (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    "wrong checksum": (batch(b"a")[:-1] + b"\x7e", ErrorCode.CORRUPT_MESSAGE),
    "an offset": (batch(b"a", base_offset=5), ErrorCode.INVALID_RECORD),
    "control bit": (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
    "more records than said": (with_header(batch(b"a", b"b"), 57, ">i", 1), ErrorCode.INVALID_RECORD),
    "fewer records than said": (with_header(batch(b"a", b"b"), 57, ">i", 3), ErrorCode.INVALID_RECORD),
    "wrong last offset delta": (with_header(batch(b"a", b"b"), 23, ">i", 5), ErrorCode.INVALID_RECORD),
    "producer without sequence": (batch(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "too large": (batch(b"x" * 1_048_600), ErrorCode.MESSAGE_TOO_LARGE),
    "cut short": (batch(b"abc")[:-4], ErrorCode.INVALID_RECORD),
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "does not inflate": (with_header(batch(b"a"), 21, ">h", Codec.GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),
}


@scenario("P Produce: refused", versions=PRODUCE, choices=REFUSED, thin=True)
async def produce_what_is_not(run: Run, version: int, what: str) -> None:
    """A refused batch leaves the log as it was: a sound one goes behind it, and both are looked for."""
    writer = await Writer.begin(run)
    records, error = REFUSED[what]
    await writer.write(records, error, version=version, note=what)
    await writer.write(batch(b"sound"), version=version, note="afterwards")
    await writer.read(isolation_level=0)


@scenario("P Produce: refused as a whole", versions=PRODUCE)
async def produce_requests_that_are_not_sound(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    for acks in (2, -2):
        await writer.write(batch(), ErrorCode.INVALID_REQUIRED_ACKS, version=version, note="acks", acks=acks)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await writer.write(batch(), unknown, version=version, note="unknown partition", partition=99)
    here = writer.topic, writer.topic_id
    writer.topic, writer.topic_id = "nowhere", bytes(15) + b"\7"
    error = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else unknown
    await writer.write(batch(), error, version=version, note="unknown topic")
    writer.topic, writer.topic_id = here
    open_ended = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    await writer.write(open_ended, error, version=version, note="transactional, no id")
    other = batch(b"a", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    request = writer.request((0, open_ended), (1, other), version=version, transactional_id=run.name)
    await writer.ask(request, version, "two producers")
    await writer.read(isolation_level=0)


@scenario("P Produce: times", versions=PRODUCE)
async def produce_times_out_of_range(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    far = batch(b"a", at_ms=AT_MS + 10_000 * DAY_MS)
    await writer.write(far, ErrorCode.INVALID_TIMESTAMP, version=version, note="far in the future")
    await writer.write(batch(b"a", at_ms=1), version=version, note="long ago")
    await writer.write(batch(b"a", at_ms=-1), version=version, note="none")


# Idempotence.


@scenario("P idempotence: sequences", versions=PRODUCE)
async def produce_in_sequence(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    for sequence in range(6):
        await writer.write(numbered(sequence), version=version, note=f"{sequence}")
    await writer.write(numbered(5), version=version, note="the last again")
    await writer.write(numbered(1), version=version, note="the oldest that is remembered")
    await writer.write(numbered(0), OUT_OF_ORDER, version=version, note="older")
    await writer.write(numbered(7), OUT_OF_ORDER, version=version, note="a gap")
    await writer.write(numbered(5, b"a", b"b"), OUT_OF_ORDER, version=version, note="again, but longer")
    await writer.write(numbered(6, b"a", b"b"), version=version, note="the next")
    await writer.write(numbered(9, producer_id=99), version=version, note="an unknown producer anywhere")
    await writer.describe(0, 1)
    await writer.read(isolation_level=0)


@scenario("P idempotence: epochs", versions=PRODUCE)
async def produce_under_epochs(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    await writer.write(numbered(0, epoch=1), version=version)
    await writer.write(numbered(0, epoch=0), OLD_EPOCH, version=version, note="an older epoch")
    await writer.write(
        numbered(1, epoch=2), OUT_OF_ORDER, version=version, note="a newer one must begin with 0"
    )
    await writer.write(numbered(0, epoch=2), version=version, note="and does")
    await writer.write(numbered(1, epoch=1), OLD_EPOCH, version=version, note="now the first is old")
    await writer.describe()


@scenario("P idempotence: the wrap", versions=PRODUCE)
async def produce_over_the_last_sequence(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    await writer.write(numbered(LAST_SEQUENCE - 1, b"a"), version=version)
    await writer.write(numbered(LAST_SEQUENCE, b"a", b"b", b"c"), version=version, note="over it")
    await writer.write(numbered(LAST_SEQUENCE, b"a", b"b", b"c"), version=version, note="again")
    await writer.write(numbered(2), version=version, note="the next")
    await writer.describe()


# Transactions.


async def begun(run: Run, version: int, *partitions: int) -> tuple[Writer, Producer]:
    """A producer in a transaction that Produce of `version` can go on with."""
    writer, producer = await Writer.begin(run), Producer(run)
    await producer.init(5)
    if version < 12:
        await producer.add(3, topics={writer.topic: list(partitions or (0,))})
    return writer, producer


@scenario("P transactions: produce", versions=PRODUCE)
async def produce_within_a_transaction(run: Run, version: int) -> None:
    writer, producer = await begun(run, version)
    own: dict[str, Any] = {"version": version, "transactional_id": producer.transactional_id}
    await writer.write(within(producer, 0), note="the first", **own)
    await writer.write(within(producer, 1), note="the second", **own)
    await writer.write(within(producer, 1), note="the second again", **own)
    await writer.write(within(producer, 3), OUT_OF_ORDER, note="a gap", **own)
    plain = numbered(2, producer_id=producer.producer_id, epoch=producer.producer_epoch)
    await writer.write(plain, ErrorCode.INVALID_TXN_STATE, version=version, note="not transactional")
    await writer.write(batch(b"other"), version=version, note="others may")
    await writer.describe()
    await writer.read(note="nothing is decided")
    await writer.read(isolation_level=0, note="all there is")
    await producer.end(True, 5 if version >= 12 else 4)
    await settled(producer)
    await writer.read(note="decided")
    await writer.describe()
    if version >= 12:
        await writer.write(within(producer, 0), note="the next, of its own epoch", **own)
        await writer.write(within(producer, 1, epoch=0), OLD_EPOCH, note="of the last one's", **own)


async def settled(producer: Producer) -> None:
    """Wait until the markers of the producer's transaction are written."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    state = await producer.look()
    while not state.transaction_state.startswith("Complete"):
        assert time.monotonic() < deadline, state
        await asyncio.sleep(POLL_S)
        state = await producer.look()


@scenario("P transactions: unverified", versions=PRODUCE, **VERIFIED)
async def produce_outside_of_a_transaction(run: Run, version: int) -> None:
    """A batch whose partition is not in the transaction, or whose producer is not the one."""
    writer, producer = await begun(run, version, 1)
    own: dict[str, Any] = {"version": version, "transactional_id": producer.transactional_id}
    if version < 12:
        error = ErrorCode.TRANSACTION_ABORTABLE if version == 11 else ErrorCode.INVALID_TXN_STATE
        await writer.write(within(producer, 0), error, note="a partition that was not added", **own)
    else:
        await writer.write(within(producer, 5), OUT_OF_ORDER, note="a transaction begins with 0", **own)
    await writer.write(within(producer, 0, epoch=7), OLD_EPOCH, note="another epoch", **own)
    stranger = batch(b"v", producer_id=99_999_999, producer_epoch=0, base_sequence=0, transactional=True)
    error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await writer.write(stranger, error, note="another producer", **own)
    own["transactional_id"] = "unknown"
    await writer.write(within(producer, 0), error, note="an unknown transactional id", **own)
    await writer.read()
    await writer.describe()


@scenario("P transactions: readers", versions=READ)
async def read_what_is_committed(run: Run, version: int) -> None:
    writer, producer = await begun(run, 11)
    own: dict[str, Any] = {"version": 11, "transactional_id": producer.transactional_id}
    await writer.write(batch(b"before"))
    await writer.read(version=version, note="no transaction yet")
    await writer.write(within(producer, 0), **own)
    await writer.write(batch(b"between"))
    for level in (0, 1):
        await writer.read(version=version, isolation_level=level, note=f"open, level {level}")
        await writer.read(2, version=version, isolation_level=level, note=f"behind it, level {level}")
    await producer.end(False)
    await settled(producer)
    for level in (0, 1):
        await writer.read(version=version, isolation_level=level, note=f"aborted, level {level}")
        await writer.read(
            3, version=version, isolation_level=level, note=f"from the marker on, level {level}"
        )
        await writer.read(4, version=version, isolation_level=level, note=f"at the end, level {level}")
    await producer.add(3, topics={writer.topic: [0]})
    await writer.write(within(producer, 1), **own)
    await producer.end(True)
    await settled(producer)
    await writer.read(version=version, note="aborted and committed")
    await writer.read(4, version=version, note="committed")


@scenario("P transactions: latest offsets", versions=LISTED_BY_ISOLATION)
async def list_what_is_committed(run: Run, version: int) -> None:
    writer, producer = await begun(run, 11)
    await writer.write(batch(b"before"))
    await writer.write(within(producer, 0), version=11, transactional_id=producer.transactional_id)
    await writer.write(batch(b"late", at_ms=AT_MS + 10))
    for note in ("open", "decided"):
        for level in (0, 1):
            await writer.latest(version, level, note=f"{note}, level {level}")
            await writer.latest(version, level, AT_MS + 5, f"{note}, by time, level {level}")
            await writer.latest(version, level, -2, f"{note}, first, level {level}")
        if note == "open":
            await producer.end(True)
            await settled(producer)


# Markers.


@scenario("P markers: written", versions=WRITE_MARKERS)
async def markers_end_transactions(run: Run, version: int) -> None:
    writer, producer = await begun(run, 11)
    await writer.write(within(producer, 0), version=11, transactional_id=producer.transactional_id)
    await writer.read(note="open")
    await writer.mark(producer.producer_id, commit=False, version=version)
    await writer.read(note="ended by hand")
    await writer.describe()
    await writer.mark(producer.producer_id, version=version, note="again, a commit")
    await writer.mark(4711, version=version, note="of a producer that never wrote")
    await writer.describe(0, 1)
    await writer.read(note="all markers")


@scenario("P markers: refused", versions=WRITE_MARKERS)
async def markers_that_are_fenced(run: Run, version: int) -> None:
    writer = await Writer.begin(run)
    await writer.mark(4711, 3, version=version, coordinator_epoch=5, note="epoch 3")
    await writer.mark(4711, 2, OLD_EPOCH, version=version, coordinator_epoch=5, note="an older epoch")
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await writer.mark(4711, 3, fenced, version=version, coordinator_epoch=4, note="an older coordinator")
    await writer.mark(4711, 4, version=version, coordinator_epoch=5, note="a newer epoch")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await writer.mark(4711, 4, unknown, version=version, note="no such topic", topics={"nowhere": [0]})
    await writer.mark(
        4711, 4, unknown, version=version, note="no such partition", topics={writer.topic: [77]}
    )
    await writer.write(numbered(0, epoch=3), OLD_EPOCH, note="the marker fences the producer, too")
    await writer.describe()


@scenario("P markers: bumped epochs")
async def markers_of_transactions_with_epochs_of_their_own(run: Run) -> None:
    writer = await Writer.begin(run)
    own: dict[str, Any] = {"version": 2, "transaction_version": 2}
    producer = Producer(run)
    await producer.init(5)
    await writer.write(within(producer, 0), version=12, transactional_id=producer.transactional_id)
    producer_id = producer.producer_id
    await writer.mark(producer_id, 0, OLD_EPOCH, note="the epoch of the open transaction", **own)
    await writer.mark(producer_id, 1, note="bumped", **own)
    await writer.mark(producer_id, 1, note="written again", **own)
    await writer.mark(producer_id, 0, OLD_EPOCH, note="the old one", **own)
    await writer.read()
    await writer.describe()


# Describing.


@scenario("P describe: refused")
async def describe_producers_of_what_is_not_there(run: Run) -> None:
    writer = await Writer.begin(run)
    await writer.describe(0, 77, note="an unknown partition")
    await writer.describe(topic="nowhere", note="an unknown topic")
    await writer.describe(topic="not a name", note="no topic's name")
