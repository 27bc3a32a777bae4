"""Who may write a shard's log, as the log itself says: claims, releases and seals.

A node that is to own a shard gets a producer epoch that no other has (InitProducerId) and appends a *claim* under
it: from then on the leader of the partition refuses every batch of a lower epoch of that producer id. A *seal*
does so for another producer id, which the transaction coordinator has forgotten: it is written under the highest
epoch that there is. A *release* says that its owner answers and writes no more.

Each producer id has a key of its own, so compaction keeps what was last said under every one of them, and a node
that reads the whole log knows all that are not sealed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

SEAL_EPOCH: Final = 32_767
"""The highest epoch, which InitProducerId never gives: after 32,766 it gives another producer id."""


NO_HEIR: Final = -1


class Writer(NamedTuple):
    """Under what a batch was written."""

    producer_id: int
    epoch: int


class ClaimKind(Enum):
    """What a node says of a log."""

    CLAIMED = auto()  # Also said again, so that the partition does not forget the producer.
    RELEASED = auto()
    SEALED = auto()


class Endpoint(NamedTuple):
    """Where clients find a node that they know through the listener of this name."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a node says of a log, in a batch of its own."""

    kind: ClaimKind
    node_id: int
    lease_ms: int
    """After the next claim was acknowledged this owner, or one before it, may answer for so long."""
    was_active: bool = False
    """Of a release: whether its owner had waited for all owners before it, so the next need not."""
    endpoints: tuple[Endpoint, ...] = ()
    """Where the node is found, for those that send clients to it."""
    heir_id: int = NO_HEIR
    """Of a release: the node that is to own the log next, as far as its owner knows. It is advice, as all is."""

    @property
    def ends_waiting(self) -> bool:
        """Whether no earlier owner answers any more."""
        return self.kind is ClaimKind.RELEASED and self.was_active


class PlacedClaim(NamedTuple):
    """A claim, and where it is in the log."""

    offset: int
    writer: Writer
    claim: Claim
    lease_ms: int
    """The longest lease of owners that may answer for so long, this one or one before it."""


class ClaimBook:
    """The claims of one log, as far as a node has ever read it; reading a part again changes nothing."""

    def __init__(self) -> None:
        self.latest: PlacedClaim | None = None
        """The last claim or release."""
        self.previous: PlacedClaim | None = None
        """The last one before it of another writer."""
        self._highest_epochs: dict[int, int] = {}
        self._sealed: set[int] = set()

    def take(self, offset: int, writer: Writer, claim: Claim) -> None:
        """Note a claim that was read at `offset`."""
        if claim.kind is ClaimKind.SEALED:
            self._sealed.add(writer.producer_id)
            return
        if self.latest is not None and offset <= self.latest.offset:
            return
        if self.latest is not None and self.latest.writer != writer:
            self.previous = self.latest
        self.latest = PlacedClaim(offset, writer, claim, self.carried_lease_ms(claim.lease_ms))
        highest = self.highest_epoch(writer.producer_id)
        self._highest_epochs[writer.producer_id] = max(highest, writer.epoch)

    def highest_epoch(self, producer_id: int) -> int:
        """The highest epoch that was claimed under this producer id; -1 if none was."""
        return self._highest_epochs.get(producer_id, -1)

    def is_sealed(self, producer_id: int) -> bool:
        """Whether nobody can write under this producer id any more."""
        return producer_id in self._sealed

    def unsealed(self, apart_from: int = -1) -> list[int]:
        """The (other) producer ids under which the log may still be written."""
        return sorted(self._highest_epochs.keys() - self._sealed - {apart_from})

    def is_taken_by_other(self, node_id: int) -> bool:
        """Whether another node has the log, as far as it has been read."""
        latest = self.latest
        is_taken = latest is not None and latest.claim.kind is ClaimKind.CLAIMED
        return is_taken and latest is not None and latest.claim.node_id != node_id

    def is_overtaken(self, writer: Writer, claim_offset: int) -> bool:
        """Whether `writer`, whose claim is there, may not write: another's is behind it, or its id is sealed."""
        latest = self.latest
        is_behind = latest is not None and latest.writer != writer and latest.offset > claim_offset
        return is_behind or writer.producer_id in self._sealed

    def is_foreign(self, writer: Writer, owner: Writer, claim_offset: int) -> bool:
        """Whether a batch of `writer` should not be where it is: behind the claim of `owner`, if that holds."""
        return writer != owner and not self.is_overtaken(owner, claim_offset)

    def carried_lease_ms(self, own_ms: int) -> int:
        """The lease that a claim has to name: the longest for which it, or an owner before it, may answer."""
        latest = self.latest
        return own_ms if latest is None or latest.claim.ends_waiting else max(own_ms, latest.lease_ms)
