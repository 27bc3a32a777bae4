"""What an event says that `muster observe` inferred; the coordinator records none such itself."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """What `muster observe` says of an event that it inferred from the records of another coordinator."""

    evidence: str  # A slug of `muster.observe.evidence.Evidence`: what the event, and so its cause, rests on.
    partition: int  # Of `__consumer_offsets`, and the offset of the record that showed it.
    offset: int
    leader_id: str | None = None
    members: tuple[Mapping[str, str | None], ...] | None = None  # Of the generation; None: not listed.
    missing_generations: tuple[int, int] | None = None  # The first and the last of those that are missing.
