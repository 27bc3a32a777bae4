"""Whether a whole text matches a client's regular expression, in time and memory that no expression can stretch.

RE2 matches in time linear in the text, and what a byte costs at most grows with the compiled size of the
expression. So three bounds are enough: on the expression's length, on RE2's memory, and on size times bytes over
all texts. Kafka uses RE2/J, which has nearly the same syntax; docs/apis.md names the differences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

MAX_PATTERN_BYTES: Final = 1_000
"""Of the expression in UTF-8. The dearest that have so many, full of Unicode classes, take 40 ms to be refused."""

MAX_MEMORY_BYTES: Final = 256 << 10
"""Of a compiled expression and the states that RE2 keeps while it matches. Smaller is quicker where an expression
has more states than can be kept: RE2 sees earlier that it has to do without."""

MAX_WORK: Final = 20_000_000
"""Compiled size times bytes of text, over all texts of one request to one shard. The dearest take 14 ns for one,
so 300 ms in all. `.*name.*` has a size of 24: the 10,000 ids of a full shard may have 80 bytes each."""


class InvalidPattern(ValueError):
    """The text is no regular expression, or one that is too large or may cost too much to match."""


class Pattern:
    """One expression. Raises InvalidPattern, also of `matches` where it may cost too much."""

    def __init__(self, text: str) -> None:
        compiled = _compiled(text)
        if isinstance(compiled, InvalidPattern):
            raise InvalidPattern(*compiled.args)
        self._compiled = compiled
        self._size = compiled.programsize
        self._work = 0

    def matches(self, text: str) -> bool:
        """Whether all of `text` is what the expression describes."""
        encoded = text.encode()
        self._work += self._size * len(encoded)
        if self._work > MAX_WORK:
            raise InvalidPattern("it may cost too much to match")
        return self._compiled.fullmatch(encoded) is not None


@lru_cache(maxsize=1)
def _compiled(text: str) -> Any:
    """RE2's form of the expression, or the InvalidPattern that says why there is none.

    One is kept, refused ones too: all shards are asked with the same expression, one after the other.
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
        return InvalidPattern(str(error))
    finally:
        re2.purge()  # It would keep the last 128.
