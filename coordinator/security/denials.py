"""How often each principal was denied something, and the lines of the log that say so (A21, F14)."""

from __future__ import annotations

from typing import Final

import structlog

from coordinator.security.acls import Operation, ResourceType

LOGGED_EVERY: Final = 1_000
"""Of a principal's denials one in so many is logged, beginning with the first."""
MAX_PRINCIPALS: Final = 1_000
"""Principals that are counted one by one: a certificate's or a token's name is whatever its issuer lets it be."""
OTHERS: Final = "(others)"
"""Under which all further ones are counted together."""
SHOWN_CHARS: Final = 256
"""Characters of a name in a line of the log; a client may ask for a group of 32,767."""

log = structlog.get_logger("muster.authorizer")


class Denials:
    """Counts denials by principal."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str | None
    ) -> None:
        """Count one; `name` None stands for any resource of the type."""
        key = principal[:SHOWN_CHARS]
        if key not in self.counts and len(self.counts) >= MAX_PRINCIPALS:
            key = OTHERS
        count = self.counts[key] = self.counts.get(key, 0) + 1
        if count % LOGGED_EVERY != 1:
            return
        log.info(
            "denied",
            principal=key,
            host=host,
            operation=operation.name,
            resource_type=resource_type.name,
            resource="(any)" if name is None else name[:SHOWN_CHARS],
            denied_so_far=count,
        )
