"""Which parts of a history are the daemon's own and which are simple models, drawn from its seed.

A model is quick and goes wrong in ways that the part itself rarely meets; the part has the code that users run. So
each is under a share of the seeds, and the seed says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

CONNECTIONS_SHARE: Final = 0.5
LOGS_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True)
class Parts:
    """One history's choice; shown among its parameters."""

    real_connections: bool
    """Clients keep a connection each, served by `server.connection.Connection`; else each request comes alone."""

    real_logs: bool
    """The logs are `PartitionLog`s over files that tear, with their recovery and cleaning; else models of them."""

    def __str__(self) -> str:
        connections = "real connections" if self.real_connections else "each request alone"
        return f"{connections}, {'real logs' if self.real_logs else 'models of logs'}"

    @classmethod
    def drawn(cls, random: Random) -> Parts:
        """The choice of a seed."""
        return cls(
            real_connections=random.random() < CONNECTIONS_SHARE, real_logs=random.random() < LOGS_SHARE
        )
