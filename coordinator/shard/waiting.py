"""Events that wait while a target of their group is computed, to be handled behind it in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from coordinator.effects import AppendFinished, Event, RequestReceived, TimerFired, WorkFinished
from coordinator.groups.consumer.computing import Computed, NotComputed, Suspended
from coordinator.groups.consumer.regexes import RegexesResolved
from coordinator.offsets.transactional_commit import TransactionalCommit
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest


class WaitingEvents:
    """The events of each group of which a target is computed, the request that asked for it first.

    A group is held until nothing of it waits any more: what comes meanwhile waits behind the others.
    """

    def __init__(self, suspended: dict[str, Suspended]) -> None:
        self._suspended = suspended
        self._events: dict[str, deque[Event]] = {}
        self._released: Event | None = None  # The one that is handled at present,
        self._released_from = ""  # and the group behind which it waited.

    def __bool__(self) -> bool:
        """Whether any group is held."""
        return bool(self._events)

    def takes(self, event: Event) -> bool:
        """Keep an event if it concerns a group that is held, other than the one it was released from."""
        free = self._released_from if event is self._released else None
        for group_id in named_groups(event):
            if group_id in self._events and group_id != free:
                self._events[group_id].append(event)
                return True
        return False

    def begin(self, event: Event) -> None:
        """Hold the group of a request that began to wait for its target, which then comes before all others."""
        for group_id, suspended in self._suspended.items():
            if suspended.computed is None and not suspended.is_held:
                suspended.is_held = True
                self._events.setdefault(group_id, deque()).appendleft(event)

    def computed(self, computed: Computed | NotComputed) -> None:
        """Let the request go on that asked for this, or is refused without, once it is handled again."""
        self._suspended[computed.group_id].computed = computed

    def release(self, group_id: str) -> Event | None:
        """Return the next event of a group, to be handled now; None if there is none, or a target is computed."""
        suspended = self._suspended.get(group_id)
        waiting = self._events.get(group_id)
        if waiting is None or (suspended is not None and suspended.computed is None):
            return None
        if not waiting:
            del self._events[group_id]
            return None
        self._released, self._released_from = waiting.popleft(), group_id
        return self._released


def named_groups(event: Event) -> Iterable[str]:
    """The ids of the groups that an event concerns; none for what concerns all groups, or offsets alone."""
    if isinstance(event, RequestReceived):
        return _groups_of(event.request)
    if isinstance(event, TimerFired) and hasattr(event.key, "group_id"):
        return (event.key.group_id,)
    if isinstance(event, WorkFinished) and isinstance(event.outcome, RegexesResolved):
        return (event.outcome.group_id,)
    if isinstance(event, AppendFinished) and hasattr(event.then, "group_id") and not event.error:
        return (event.then.group_id,)  # What was refused is undone before anything else finds it.
    return ()


def _groups_of(request: Any) -> Iterable[str]:
    match request:
        case TransactionalCommit():
            return (request.request.group_id,)
        case DescribeGroupsRequest():
            return request.groups
        case ConsumerGroupDescribeRequest():
            return request.group_ids
        case DeleteGroupsRequest():
            return request.groups_names
        case ListGroupsRequest():
            return ()
        case OffsetFetchRequest() if request.groups:
            return [group.group_id for group in request.groups]
    return (request.group_id,)
