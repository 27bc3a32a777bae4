"""The kinds of causes by which members come and go, as the events of a history name them."""

from __future__ import annotations

from typing import Final

from coordinator.groups.causes import DEPARTURES as KINDS_OF_DEPARTURE
from coordinator.groups.causes import CauseKind

KINDS: Final = {kind.slug: kind for kind in CauseKind}
DEPARTURES: Final = frozenset(kind.slug for kind in KINDS_OF_DEPARTURE | {CauseKind.MEMBER_GONE})
"""By these a member is gone, and may come back."""
ARRIVALS: Final = frozenset((CauseKind.MEMBER_JOINED.slug, CauseKind.STATIC_MEMBER_REPLACED.slug))
