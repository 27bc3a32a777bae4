"""Matching a client's regular expression against whole texts, in bounded time and memory.

RE2 matches in time linear in the text, and the greatest cost of a byte grows with the compiled size of the
expression. So three bounds are enough: on the expression's length, on RE2's memory, and on compiled size times
bytes of text. Kafka uses RE2/J, which has nearly the same syntax; docs/apis.md names the differences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

MAX_PATTERN_BYTES: Final = 1_000
"""Longest expression, in UTF-8. The slowest of that length, full of Unicode classes, takes 40 ms to be refused."""

MAX_MEMORY_BYTES: Final = 256 << 10
"""Most memory of a compiled expression and the states that RE2 caches while it matches. A smaller bound is quicker
for an expression with more states than fit: RE2 sees earlier that it has to match without the cache."""

MAX_WORK: Final = 20_000_000
"""Most work of one request on one shard: compiled size times bytes of all texts. The slowest expressions take
14 ns per unit, so 300 ms in all. `.*name.*` has size 24: the 10,000 ids of a full shard may have 80 bytes each."""


class InvalidPattern(ValueError):
    """The text is not a regular expression, or it is too large or may cost too much to match."""


class Pattern:
    """One compiled expression. Creating it raises InvalidPattern, and so does `matches` beyond MAX_WORK."""

    def __init__(self, text: str) -> None:
        compiled = _compiled(text)
        if isinstance(compiled, InvalidPattern):
            raise InvalidPattern(*compiled.args)
        self._compiled = compiled
        self._size = compiled.programsize
        self._work = 0

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole of `text`. Raises InvalidPattern beyond MAX_WORK."""
        encoded = text.encode()
        self._work += self._size * len(encoded)
        if self._work > MAX_WORK:
            raise InvalidPattern("it may cost too much to match")
        return self._compiled.fullmatch(encoded) is not None


@lru_cache(maxsize=1)
def _compiled(text: str) -> Any:
    """Return the expression compiled by RE2, or (not raised) the InvalidPattern that says why it cannot be.

    The last result is cached, be it an error: all shards get the same expression, one after the other.
    """
    import re2  # Only here: it takes 10 ms, and most daemons never see an expression.

    if len(text.encode()) > MAX_PATTERN_BYTES:
        return InvalidPattern(f"it has more than {MAX_PATTERN_BYTES} bytes")
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True  # What a group matched is not asked for, and would cost more.
    options.log_errors = False  # They would go to standard error.
    try:
        return re2.compile(text, options)
    except re2.error as error:
        return InvalidPattern(error.args[0].decode(errors="replace"))  # RE2 gives its reason as bytes.
    finally:
        re2.purge()  # Empty RE2's own cache, which would keep the last 128 expressions.
