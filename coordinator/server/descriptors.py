"""How many descriptors the process may have, and which of them are kept for the log.

Every connection and every segment is an open file. Connections come from outside, so they are what must stop
short of the limit: a segment that cannot be opened fails commits of clients that are served already.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from typing import Final

import structlog

log = structlog.get_logger("muster.server")

RESERVED_SHARE: Final = 4
"""One in so many descriptors is kept from connections: a partition that is written to holds three or four."""

RESERVED_MIN: Final = 64
"""Descriptors kept from connections at least, where the limit is low; but never more than half of it."""

FEW_DESCRIPTORS: Final = 1024
"""A limit below this is worth a warning: the internal topics alone have a hundred partitions."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The process's limit on open files: every descriptor that it can have is below `limit`."""

    limit: int

    @classmethod
    def of_process(cls) -> Descriptors:
        """Return the current limit of this process."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(sys.maxsize if soft == resource.RLIM_INFINITY else soft)

    @property
    def for_connections(self) -> int:
        """The first descriptor that is reserved for the log: connections may have those below it.

        The system gives out the lowest free descriptor. So if a new one has this number or a higher one, all that
        are meant for connections are in use.
        """
        reserved = max(RESERVED_MIN, self.limit // RESERVED_SHARE)
        return self.limit - min(reserved, self.limit // 2)


def raise_limit() -> Descriptors:
    """Raise the limit on open files to what the system allows, as a JVM does; log and return it."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    except (OSError, ValueError) as error:  # macOS reports "unlimited" and allows less.
        log.info("the limit on open files stays as it is", reason=str(error))
    found = Descriptors.of_process()
    say = log.warning if found.limit < FEW_DESCRIPTORS else log.info
    say("limit on open files", open_files=found.limit, connections_at_most=found.for_connections)
    return found
