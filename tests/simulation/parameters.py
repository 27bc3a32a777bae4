"""What a seed has drawn, in one block: these set a history apart from others before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.profile import Profile

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

UNLIMITED = 2**31 - 1


def described(simulation: Simulation) -> str:
    """The parameters of a history that has begun, a line each."""
    settings = simulation.settings
    size = "any" if settings.group_max_size == UNLIMITED else str(settings.group_max_size)
    lines = [
        f"seed {simulation.seed}",
        f"groups: initial delay {settings.group_initial_rebalance_delay_ms:,} ms, max size {size}",
        f"offsets: kept {settings.offsets_retention_minutes:,} min, "
        f"swept every {settings.offsets_retention_check_interval_ms:,} ms",
        f"network: {simulation.network.faults} % of requests go wrong",
        f"parts: {simulation.parts}",
        f"faults: for {simulation.faults_ms:,} ms, one in {simulation.pace_ms:,} ms",
        f"producers: {len(simulation.producers)}",
        *simulation.more_parameters(),
        *(
            _line(profile) if isinstance(profile, Profile) else str(profile)
            for profile in simulation.profiles
        ),
    ]
    return "\n  ".join(lines)


def _line(profile: Profile) -> str:
    instance = f" as {profile.instance_id}" if profile.instance_id else ""
    return (
        f"{profile.client_id}{instance} of {profile.group_id}: {', '.join(profile.assignors)}; "
        f"JoinGroup v{profile.era.join}, session {profile.session_timeout_ms:,} ms, "
        f"rebalance {profile.rebalance_timeout_ms:,} ms"
    )
