"""The client ids of one connection's requests, as text. A client keeps its id, so the last one is remembered."""

from __future__ import annotations

from protocol.codec.primitives import replaced_text


class ClientIds:
    """Makes text of client ids. Raises DecodeError for one that is none."""

    __slots__ = ("_last", "text")

    def __init__(self) -> None:
        self._last = b""
        self.text = ""

    def text_of(self, raw: bytes) -> str:
        """Return the client id in `raw` as text."""
        if raw != self._last:
            self.text = replaced_text(raw)
            self._last = raw
        return self.text
