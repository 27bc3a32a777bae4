"""The question of rights, as those who ask it see it: the authorizer answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinator.security.acls import Operation, ResourceType


class Rights(Protocol):
    """Who may do what. All methods run on the event-loop thread and look at memory alone."""

    version: int
    """Moves with every change: an answer holds as long as it is the same."""

    def may(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether `principal` ("User:alice") at `host` ("127.0.0.1") may do it to the resource (A1 to A5)."""

    def permits(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """As `may`, where a no refuses nothing that was asked for, and so is no denial to count or log."""

    def permitted(
        self,
        principal: str,
        host: str,
        operations: Sequence[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> Sequence[Operation]:
        """Those of `operations` that it `permits`: cheaper than one question for each."""

    def may_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of that type, it need not exist, to which it may do `operation` (A6)."""
