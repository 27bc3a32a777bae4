"""The kinds of value a setting may have: how its text is read, and which values are allowed.

Each kind is an annotation for a pydantic field. It reads text the way Kafka's own configuration does
(`true` and `false` are the only booleans, a whole number is digits with a sign) and says in words what
is allowed: the same words are used when a value is refused and in the table of settings. It knows neither the
names of settings nor where values come from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, TypeAlias

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from coordinator.topics.config_values import INT32_MAX, INT64_MAX, InvalidConfig
from coordinator.topics.dynamic_kinds import overrides_of

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")  # 20 digits hold every 64-bit value.


class Kind(Protocol):
    """A kind of value: how its text is parsed, and which values are allowed."""

    @property
    def allowed(self) -> str:
        """The allowed values in words, to follow "must be"."""

    def parse(self, value: object) -> Any:
        """Return the value parsed from a text, or `value` itself, checked, if not a text. Raises ValueError."""


class _Parsed:
    """Base class that makes a kind usable as a pydantic annotation; `parse` does the whole check."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def parse(self, value: object) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Whole(_Parsed):
    """A whole number from `low` to `high`, or one of `also`; empty text is None where `optional`."""

    low: int
    high: int = INT32_MAX
    also: tuple[int, ...] = ()
    optional: bool = False

    @property
    def allowed(self) -> str:
        words = [str(value) for value in self.also] + [f"a whole number from {self.low} to {self.high}"]
        return " or ".join(words) + (", or empty" if self.optional else "")

    def parse(self, value: object) -> int | None:
        if isinstance(value, str):
            value = self._from_text(value.strip())
        if value is None and self.optional:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(self.allowed)
        if not (self.low <= value <= self.high or value in self.also):
            raise ValueError(self.allowed)
        return value

    def _from_text(self, text: str) -> int | None:
        if not text and self.optional:
            return None
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError(self.allowed)
        return int(text)


@dataclass(frozen=True, slots=True)
class Real(_Parsed):
    """A number from `low` to `high`; None for either: no limit."""

    low: float | None = None
    high: float | None = None

    @property
    def allowed(self) -> str:
        bounds = [
            words.format(bound)
            for words, bound in (("from {}", self.low), ("to {}", self.high))
            if bound is not None
        ]
        return " ".join(["a number", *bounds])

    def parse(self, value: object) -> float:
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except ValueError:
            number = math.nan
        is_low = self.low is not None and number < self.low
        is_high = self.high is not None and number > self.high
        if isinstance(value, bool) or math.isnan(number) or is_low or is_high:
            raise ValueError(self.allowed)
        return number


@dataclass(frozen=True, slots=True)
class Flag(_Parsed):
    """`true` or `false`, in any case."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def parse(self, value: object) -> bool:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower())
        if not isinstance(value, bool):
            raise ValueError(self.allowed)
        return value


@dataclass(frozen=True, slots=True)
class Choice(_Parsed):
    """One of a few words, in any case unless `is_exact`."""

    words: tuple[str, ...]
    is_exact: bool = False

    @property
    def allowed(self) -> str:
        return " or ".join(self.words)

    def parse(self, value: object) -> str:
        word = value.strip() if isinstance(value, str) else value
        if isinstance(word, str) and not self.is_exact:
            word = word.lower()
        if word not in self.words:
            raise ValueError(self.allowed)
        return str(word)


@dataclass(frozen=True, slots=True)
class Regex(_Parsed):
    """A regular expression, as Python has them."""

    @property
    def allowed(self) -> str:
        return "a regular expression"

    def parse(self, value: object) -> str:
        try:
            return re.compile(value if isinstance(value, str) else "(").pattern
        except re.error as error:
            raise ValueError(f"{self.allowed} ({error})") from None


@dataclass(frozen=True, slots=True)
class Words(_Parsed):
    """A list separated by commas, of the `known` words only, if any are given; no known word may occur twice.

    Each of `synonyms` stands for a known word. If one is `needed`, it must be in the list. Kafka refuses blanks
    between commas, and so do we.
    """

    known: tuple[str, ...] = ()
    needed: str | None = None
    synonyms: Mapping[str, str] = field(default_factory=dict)
    is_empty_allowed: bool = True

    @property
    def allowed(self) -> str:
        words = "a list separated by commas" + (f" of {' and '.join(self.known)}" if self.known else "")
        if self.synonyms:
            words += f", or {' and '.join(self.synonyms)} for these, each once"
        if self.needed is not None:
            words += f", {self.needed} among them"
        return words if self.is_empty_allowed else f"{words}, and not empty"

    def parse(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")] if value.strip() else []
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) and word for word in value):
            raise ValueError(self.allowed)
        meant = [self.synonyms.get(word, word) for word in value]
        if self.known and (not set(meant) <= set(self.known) or len(set(meant)) < len(meant)):
            raise ValueError(self.allowed)
        if (self.needed is not None and self.needed not in meant) or not (meant or self.is_empty_allowed):
            raise ValueError(self.allowed)
        return tuple(value)


@dataclass(frozen=True, slots=True)
class FreeText(_Parsed):
    """Any text that is not blank; blank is None where `optional`."""

    optional: bool = False

    @property
    def allowed(self) -> str:
        return "any text, or empty" if self.optional else "text that is not blank"

    def parse(self, value: object) -> str | None:
        if self.optional and (value is None or (isinstance(value, str) and not value.strip())):
            return None
        if not isinstance(value, str) or not value.strip():
            raise ValueError(self.allowed)
        return value.strip()


@dataclass(frozen=True, slots=True)
class AddressCounts(_Parsed):
    """A list of addresses, each with a number of connections; the value is the checked text itself."""

    @property
    def allowed(self) -> str:
        return "a list separated by commas of address:count"

    def parse(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(self.allowed)
        try:
            overrides_of(value)
        except InvalidConfig as error:
            raise ValueError(self.allowed) from error
        return value.strip()


Count: TypeAlias = Annotated[int, Whole(1)]
CountOrZero: TypeAlias = Annotated[int, Whole(0)]
CountOrNone: TypeAlias = Annotated[int, Whole(-1)]  # -1: no limit, or the system's default.
LongCount: TypeAlias = Annotated[int, Whole(1, INT64_MAX)]
LongCountOrZero: TypeAlias = Annotated[int, Whole(0, INT64_MAX)]
LongCountOrNone: TypeAlias = Annotated[int, Whole(-1, INT64_MAX)]
Switch: TypeAlias = Annotated[bool, Flag()]
WordList: TypeAlias = Annotated[tuple[str, ...], Words()]
NonBlank: TypeAlias = Annotated[str, FreeText()]
