"""JSON in parts: a document of ten thousand members is encoded a slice at a time, and never held as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

ITEMS_AT_ONCE: Final = 20
"""Items encoded between two yields: some 10 us each."""


def encoded(value: Any) -> bytes:
    """Return `value` as JSON in ASCII: nothing that a client chose, such as bidi marks, stands as it is."""
    return json.dumps(value, separators=(",", ":")).encode()


def in_parts(fields: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of a JSON object.

    A value that is an iterator is a list, of which some items are encoded at a time. An item that is None is none:
    it stands for a pause in making the next one.
    """
    opening = b"{"
    for name, value in fields.items():
        head = opening + encoded(name) + b":"
        opening = b","
        if not isinstance(value, Iterator):
            yield head + encoded(value)
            continue
        yield head + b"["
        yield from _items(value)
        yield b"]"
    yield b"}" if opening == b"," else b"{}"


def _items(items: Iterable[Any]) -> Iterator[bytes]:
    separator = b""
    rest = iter(items)
    while some := list(islice(rest, ITEMS_AT_ONCE)):
        kept = [encoded(item) for item in some if item is not None]
        yield (separator if kept else b"") + b",".join(kept)
        separator = b"," if kept else separator
