"""Who has which partition: the epoch of each partition's holder, over all members of one group (A23)."""

from __future__ import annotations

from coordinator.groups.consumer.reconciliation import FREE, CurrentAssignment
from protocol.errors import DecodeError


class PartitionHeldTwice(DecodeError):
    """A partition would have two holders at once: a bug of ours, or of who wrote the log; no client's fault."""


class HeldPartitions:
    """The partitions that members have or have to give up, each with its holder's member epoch."""

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[bytes, dict[int, int]] = {}

    def epoch_of(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the partition's holder, FREE if there is none."""
        return self._epochs.get(topic_id, {}).get(partition, FREE)

    def enter(self, current: CurrentAssignment) -> None:
        """Enter what a member has. Raises PartitionHeldTwice for one that is held in the same or a later epoch."""
        for held in (current.assigned, current.pending_revocation):
            for topic_id, partitions in held.items():
                epochs = self._epochs.setdefault(topic_id, {})
                for partition in partitions:
                    holder_epoch = epochs.get(partition)
                    if holder_epoch is not None and holder_epoch >= current.member_epoch:
                        raise PartitionHeldTwice(f"partition {partition} of {topic_id.hex()}")
                    epochs[partition] = current.member_epoch

    def release(self, current: CurrentAssignment) -> None:
        """Remove what a member had, unless another has taken it over in a later epoch."""
        for held in (current.assigned, current.pending_revocation):
            for topic_id, partitions in held.items():
                epochs = self._epochs.get(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition) == current.member_epoch:
                        del epochs[partition]
                if not epochs:
                    self._epochs.pop(topic_id, None)
