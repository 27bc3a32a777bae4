"""What a node learns of a shard's log on Kafka, and what it then asks of its shell.

Times are of the node's own clock, which goes on while the node sleeps (CLOCK_BOOTTIME), in ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from coordinator.backing.claims import Claim, Writer

# Events.


class Advised(NamedTuple):
    """Whether this node is to own the shard, as newest advice has it."""

    is_wanted: bool


class FollowedBatch(NamedTuple):
    """A batch that was read; `claim` is what it says if it is one of ours about the log, else None."""

    base_offset: int
    last_offset: int
    writer: Writer
    claim: Claim | None
    leader_epoch: int = 0
    """Of the leader that was given it."""


class Followed(NamedTuple):
    """The answer to a Fetch that was sent at `sent_ms`: all between the position before and `next_offset`."""

    batches: tuple[FollowedBatch, ...]
    next_offset: int
    high_watermark: int
    sent_ms: int
    leader_epoch: int = 0
    """Of the leader that answered."""


class EpochGiven(NamedTuple):
    """The answer to an InitProducerId that was asked at `asked_ms`."""

    writer: Writer
    asked_ms: int


class EpochFailed(NamedTuple):
    """InitProducerId was not answered, or with an error: it is asked again."""


class AppendError(Enum):
    """Why a batch was not acknowledged."""

    RETRIABLE = auto()  # It may be in the log, or come there yet: the same bytes are sent again.
    FENCED = auto()  # INVALID_PRODUCER_EPOCH: another node has a newer epoch.
    OUT_OF_SEQUENCE = auto()  # OUT_OF_ORDER_SEQUENCE_NUMBER, or the log is not what this node takes it for.


class Appended(NamedTuple):
    """Every in-sync replica has the batch, as the answer to the Produce that was sent at `sent_ms` says."""

    number: int
    base_offset: int
    sent_ms: int


class AppendFailed(NamedTuple):
    """The Produce that was sent at `sent_ms` was answered with an error, or not in time."""

    number: int
    error: AppendError
    sent_ms: int


class WriteWanted(NamedTuple):
    """The owner has records to append, as one batch. Only while `Ownership.can_write`."""

    content: Any
    record_count: int


class LogLost(NamedTuple):
    """The log does not have what was read of it, or not its beginning any more."""


class Tick(NamedTuple):
    """It is `Ownership.wake_ms`, or later."""


OwnershipEvent = (
    Advised | Followed | EpochGiven | EpochFailed | Appended | AppendFailed | WriteWanted | LogLost | Tick
)

# Actions.


class AskEpoch(NamedTuple):
    """Send InitProducerId for the shard's transactional id."""

    asked_ms: int


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch, the same bytes each time that it is sent."""

    number: int
    """Names the batch in the answers to it."""
    writer: Writer
    base_sequence: int
    record_count: int
    content: Any
    """The records, or the Claim that it is."""


class Send(NamedTuple):
    """Send the batch in a Produce with acks=all to the partition's leader."""

    batch: OutgoingBatch
    sent_ms: int


class Serve(NamedTuple):
    """All that was written before the claim has been followed: answer and write from now on."""


class Retire(NamedTuple):
    """Answer nothing new; what waits for a batch that was sent is answered when that is acknowledged."""


class Written(NamedTuple):
    """The batch of the owner is durable, and ends before `end_offset`."""

    number: int
    end_offset: int


class Drop(NamedTuple):
    """Answer all that still waits with NOT_COORDINATOR, forget the state, and read the log from its start."""


class ForeignBatch(NamedTuple):
    """A batch that another wrote behind the claim in force, which its leader should have refused."""

    batch: FollowedBatch


OwnershipAction = AskEpoch | Send | Serve | Retire | Written | Drop | ForeignBatch
