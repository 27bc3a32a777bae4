"""For how long a proof is good that this node is the newest owner of a shard, and that its epoch is known."""

from __future__ import annotations


class Lease:
    """Begins when a request was sent that came back as a proof. Times are of the node's own clock."""

    def __init__(self, lease_ms: int, epoch_life_ms: int) -> None:
        self.proven_ms = 0
        """When the newest proof was sent; before there is one, when the epoch was asked for."""
        self._lease_ms = lease_ms
        self._epoch_life_ms = epoch_life_ms

    def begin(self, asked_ms: int) -> None:
        """An epoch is asked for."""
        self.proven_ms = asked_ms

    def prove(self, sent_ms: int) -> None:
        """What was sent then came back as a proof."""
        self.proven_ms = max(self.proven_ms, sent_ms)

    def is_running(self, now_ms: int) -> bool:
        """Whether no later owner answers yet."""
        return now_ms < self.ends_at_ms

    @property
    def ends_at_ms(self) -> int:
        """When a later owner may answer, unless another proof comes."""
        return self.proven_ms + self._lease_ms

    def is_outlived(self, now_ms: int) -> bool:
        """Whether the leader may have forgotten the epoch, and would take any."""
        return now_ms >= self.outlived_at_ms

    @property
    def outlived_at_ms(self) -> int:
        """When the epoch is not to be used any more, unless another proof comes."""
        return self.proven_ms + self._epoch_life_ms
