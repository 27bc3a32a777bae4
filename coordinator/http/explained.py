"""A group whose rebalances are to be explained, as plain values: what the words are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from coordinator.effects import GroupEvent
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeGroup
from protocol.messages.describe_groups import DescribedGroup


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """All is as of one moment, `now_ms` (since 1970); the descriptions are None if the group is not here."""

    group_id: str
    now_ms: int
    events: Sequence[GroupEvent]  # The newest ones, oldest first.
    is_whole: bool  # Whether they are all that there were.
    described: DescribedGroup | ConsumerGroupDescribeGroup | None = None  # As Kafka's protocol has it.
    document: dict[str, Any] | None = None  # `/api/v1/group`; None as well if it does not rebalance.


Explain: TypeAlias = Callable[[ExplainedGroup], dict[str, Any]]
"""Words for a group, as values of JSON; composed by the face of the product. Called on a thread."""
