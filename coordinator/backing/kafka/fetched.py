"""What a Fetch brought of one log: whole batches, checked, with the claims among them read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.backing.claims import Claim, Writer
from coordinator.backing.events import Followed, FollowedBatch
from coordinator.backing.kafka.claim_records import read_claim
from protocol.messages.fetch import PartitionData
from protocol.records.batch import Batch, Buffer, CorruptBatch, check_crc, walk
from protocol.records.records import Record, read_records


class UntakenBatchError(Exception):
    """A follower could not take a batch, and has begun anew; the message names the offset."""


class FetchedBatch(NamedTuple):
    """A batch, in the bytes of the answer that it came with."""

    header: Batch
    buffer: Buffer
    claim: Claim | None

    @property
    def writer(self) -> Writer:
        """Under what it was written."""
        return Writer(self.header.producer_id, self.header.producer_epoch)

    def records(self) -> list[Record]:
        """Its records. Raises CorruptBatch."""
        return read_records(self.buffer, self.header)


class Fetched(NamedTuple):
    """The answer of broker `node_id` to a Fetch of one log, sent at `sent_ms`, as its leader in `leader_epoch`."""

    position: int
    next_offset: int
    high_watermark: int
    batches: Sequence[FetchedBatch]
    node_id: int
    sent_ms: int
    leader_epoch: int

    @property
    def is_whole(self) -> bool:
        """Whether there was nothing more to read that counts."""
        return self.next_offset >= self.high_watermark

    def followed(self) -> Followed:
        """What it says to `Ownership`."""
        batches = tuple(
            FollowedBatch(
                each.header.base_offset,
                each.header.last_offset,
                each.writer,
                each.claim,
                each.header.leader_epoch,
            )
            for each in self.batches
        )
        return Followed(batches, self.next_offset, self.high_watermark, self.sent_ms, self.leader_epoch)


def fetched(data: PartitionData, position: int, node_id: int, sent_ms: int, leader_epoch: int) -> Fetched:
    """Read an answer without an error. Raises CorruptBatch and UnreadableClaimError."""
    buffer = data.records or b""
    batches = []
    next_offset = position
    for header in walk(buffer):
        if header.last_offset < position:
            continue
        if not check_crc(buffer, header):
            raise CorruptBatch(
                f"the batch at offset {header.base_offset} does not have the CRC that it names"
            )
        batches.append(FetchedBatch(header, buffer, _claim_of(buffer, header)))
        next_offset = header.last_offset + 1
    return Fetched(position, next_offset, data.high_watermark, batches, node_id, sent_ms, leader_epoch)


def _claim_of(buffer: Buffer, header: Batch) -> Claim | None:
    """A claim is alone in its batch, uncompressed. One that a later one replaced may be compacted away."""
    if header.record_count != 1 or header.is_control:
        return None
    return read_claim(read_records(buffer, header)[0])
