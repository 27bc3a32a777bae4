"""Why a group rebalanced, by events that are at hand: as the daemon answers it over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.effects import GroupEvent
from muster.groups.why.answers import Question, answer
from muster.groups.why.tables import answer_json


def explain(group_id: str, events: Sequence[GroupEvent], now_ms: int) -> dict[str, Any]:
    """The answer, by the group's events in the order in which they happened; older ones may be missing."""
    return answer_json(answer(Question(group_id, None, now_ms), events, None, is_whole=False))
