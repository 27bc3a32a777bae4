"""Transactions on a log of the storage tests, and the plain story of them that everything is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.records.control import ControlType, Marker, control_type, encode_marker
from protocol.records.records import Record, read_records
from storage.log.partition_log import PartitionLog
from storage.producers.producer_state import ProducerState
from storage.producers.transaction_index import AbortedTransaction
from tests.batches import encode_batch
from tests.storage.logs import NOW_MS


def put(log: PartitionLog, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1) -> int:
    """Append a transactional batch; its first offset."""
    data = encode_batch(
        [Record(b"k", b"v" * 20, NOW_MS)] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return log.append(data, wall_ms=NOW_MS).base_offset


def end(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
    """Append a marker; its offset."""
    marker = Marker(producer_id, epoch, coordinator_epoch=3, is_commit=commit)
    return log.append(encode_marker(marker, base_offset=0, wall_ms=NOW_MS), wall_ms=NOW_MS).base_offset


@dataclass(slots=True)
class Story:
    """What a log says of its transactions, read record by record."""

    open: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    stable_offset: int = 0
    last_sequences: dict[int, int] = field(default_factory=dict)


def story_of(log: PartitionLog) -> Story:
    story = Story()
    for batch, data in log.batches(log.log_start_offset):
        producer_id = batch.producer_id
        if batch.is_control:
            kind = control_type(read_records(data, batch)[0].key)
            first = story.open.pop(producer_id, None)
            if kind is ControlType.ABORT and first is not None:
                stable = min(story.open.values(), default=batch.base_offset + 1)
                story.aborted.append(AbortedTransaction(producer_id, first, batch.base_offset, stable))
        elif producer_id >= 0:
            story.last_sequences[producer_id] = batch.last_sequence
            if batch.is_transactional:
                story.open.setdefault(producer_id, batch.base_offset)
    story.stable_offset = min(story.open.values(), default=log.durable_offset)
    return story


def known(log: PartitionLog) -> ProducerState:
    """Have the producers read, as a start does."""
    log.producers.state = log.producers.read(NOW_MS).state
    return log.producers.state


def assert_story_is_complete(log: PartitionLog) -> None:
    """What is known of the log's producers is what its records say."""
    story, state = story_of(log), log.producers.state
    assert state is not None
    assert log.producers.last_stable_offset == story.stable_offset
    assert log.producers.aborted(0, log.next_offset) == story.aborted
    producers = dict(state.items())
    starts = {key: each.transaction_start for key, each in producers.items()}
    assert {key: start for key, start in starts.items() if start is not None} == story.open
    assert {
        key: each.last_sequence for key, each in producers.items() if each.batches
    } == story.last_sequences
