"""Why a group rebalanced, by what the daemon has at hand of it: as it is answered over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coordinator.effects import GroupEvent
from muster.groups.descriptions import Described, of_classic, of_consumers, whole
from muster.groups.why.answers import Question, answer
from muster.groups.why.live import LivingGroup
from muster.groups.why.tables import answer_json
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeGroup
from protocol.messages.describe_groups import DescribedGroup

_HERE: Final = (-1, "")
"""The coordinator, of which nothing is said here."""


def explain(
    group_id: str,
    now_ms: int,
    events: Sequence[GroupEvent],
    *,
    is_whole: bool,
    described: DescribedGroup | ConsumerGroupDescribeGroup | None,
    document: dict[str, Any] | None,
) -> dict[str, Any]:
    """The answer, as `muster groups why --json` has it, by the group's events in the order in which they happened.

    `described` is the group as Kafka's protocol has it, if it is there, and `document` what `/api/v1/group` says
    of it, if it rebalances. Without `is_whole` older events are missing.
    """
    group = None if described is None else whole(_HERE, group_id, _of(described))
    living = None if document is None else LivingGroup(document, now_ms)
    question = Question(group_id, None, now_ms)
    return answer_json(answer(question, events, group, is_whole=is_whole, living=living))


def _of(described: DescribedGroup | ConsumerGroupDescribeGroup) -> Described:
    return of_classic(described) if isinstance(described, DescribedGroup) else of_consumers(described)
