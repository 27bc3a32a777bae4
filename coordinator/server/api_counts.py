"""How many requests of each API were answered, and with which errors: plain integers, read by the metrics.

An answer that is encoded once and sent again and again counts itself (`AnswerCount`), which is one addition and
needs no look at the error in it. In all others the errors are looked for: those of the whole answer, and those in
its lists, each error once for each time that it is there, as Kafka counts them. Knows no connections.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any, Final

from protocol.codec.packed import PackedArray
from protocol.framing import AnswerCount
from storage.latencies import Latencies

TIMED: Final = frozenset({8, 9, 11, 13, 14, 68})
"""OffsetCommit, OffsetFetch, JoinGroup, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat: APIs whose requests are
timed, if they are decoded. Those that were prepared are not: it would cost more than they do."""


class ApiCounts:
    """The counts of one API."""

    __slots__ = ("_encoded", "_errors", "answered", "latencies")

    def __init__(self, key: int) -> None:
        self.answered = 0  # Answers that were encoded for their request alone.
        self._errors: Counter[int] = Counter()  # By code, in those.
        self._encoded: dict[int, AnswerCount] = {}  # By code, of answers that are encoded once.
        self.latencies = Latencies() if key in TIMED else None

    def encoded(self, error: int = 0) -> AnswerCount:
        """The count for answers that are encoded once, and have this error as their only one."""
        count = self._encoded.get(error)
        if count is None:
            count = self._encoded[error] = AnswerCount()
        return count

    def add(self, response: Any) -> None:
        """Count an answer and the errors in it."""
        self.answered += 1
        _add_errors(response, self._errors)

    @property
    def requests(self) -> int:
        """Number of requests answered so far."""
        return self.answered + sum(count.sent for count in self._encoded.values())

    @property
    def errors(self) -> dict[int, int]:
        """Number of errors answered so far, by code."""
        found = Counter(self._errors)
        for error, count in self._encoded.items():
            if error and count.sent:
                found[error] += count.sent
        return found


_PARTS: Final[dict[type, tuple[bool, tuple[str, ...]]]] = {}


def _parts(cls: Any) -> tuple[bool, tuple[str, ...]]:
    """Whether messages of a class have an error, and their fields that may be lists of parts."""
    found = _PARTS.get(cls)
    if found is None:
        found = _PARTS[cls] = _parts_of(cls)
    return found


def _parts_of(cls: Any) -> tuple[bool, tuple[str, ...]]:
    names = [each.name for each in fields(cls)]
    lists = (each for each in fields(cls) if "list" in str(each.type) or "Sequence" in str(each.type))
    return "error_code" in names, tuple(each.name for each in lists)


def _add_errors(message: Any, errors: Counter[int]) -> None:
    has_error, lists = _parts(type(message))
    if has_error and (code := message.error_code):
        errors[int(code)] += 1
    for name in lists:
        parts = getattr(message, name)
        if isinstance(parts, PackedArray):
            codes = parts.columns.get("error_code", ())
            errors.update(int(code) for code in codes if code)
        elif type(parts) is list and parts and _may_have_errors(parts[0]):
            for part in parts:
                _add_errors(part, errors)


def _may_have_errors(part: Any) -> bool:
    return is_dataclass(part) and any(_parts(type(part)))
