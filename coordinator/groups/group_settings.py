"""The settings the core obeys, under Kafka's names with dots as underscores.

Plain numbers, already checked: where they come from and what ranges they may have is the business of
`coordinator.settings.model`. Defaults are those of a stock broker (docs/kafka.md section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that was never in a generation may stay parked in JoinGroup: fixed, as in Kafka (3.27).

Such a member sends no heartbeats, so nothing else would end its wait if its client is gone.
"""

MS_PER_MINUTE: Final = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The group coordinator's settings of one daemon, the same for all its shards."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096  # Kafka counts UTF-16 units here, whatever the name says (O3).

    @property
    def offsets_retention_ms(self) -> int:
        """How long, in ms, an offset is kept after the group's last member left or after its commit (O18)."""
        return self.offsets_retention_minutes * MS_PER_MINUTE
