"""Outages of the network that last: of one client or of all, of requests, of answers or of both."""

from __future__ import annotations

from enum import Flag
from typing import Final

EVERY_CLIENT: Final = ""


class Way(Flag):
    """What does not come through; clients notice as little of the one as of the other."""

    REQUESTS = 1
    ANSWERS = 2
    BOTH = 3


class Cuts:
    """Which ways are cut at present."""

    def __init__(self) -> None:
        self._cut: list[tuple[str, Way]] = []

    def cut(self, client_id: str, way: Way) -> None:
        self._cut.append((client_id, way))

    def mend(self, client_id: str, way: Way) -> None:
        """Undo one `cut`; those that were made beside it stay."""
        if (client_id, way) in self._cut:
            self._cut.remove((client_id, way))

    def mend_all(self) -> None:
        self._cut.clear()

    def holds_up(self, client_id: str, way: Way) -> bool:
        return any(way in cut and client in (client_id, EVERY_CLIENT) for client, cut in self._cut)
