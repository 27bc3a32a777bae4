"""`ssl.principal.mapping.rules`: from the subject of a client's certificate to its principal's name (T32, T33).

A rule is `DEFAULT`, which takes the subject as it is, or `RULE:pattern/replacement/` with `L` or `U` behind it.
The first whose pattern matches the whole subject is taken; then, as in Kafka, the replacement is put wherever the
pattern is found, so that `.*` replaces twice: the whole, and the nothing behind it. Patterns are Java's; they are
matched by RE2, in time that grows with the subject alone, and what RE2 does not have (looking around, references
within the pattern) or reads otherwise (classes within classes) is refused when the daemon starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coordinator.security.tls.problems import TlsProblem

OPTION: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
MAX_RULES_CHARS: Final = 1 << 16
"""Longest text of all rules together."""

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"|(?P<blank>))\s*(?:,|$)",
    re.DOTALL,
)
_REFERENCE: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>[0-9])|(?P<plain>[^\\$]+)", re.DOTALL)
_NESTED_CLASS: Final = re.compile(r"\[(?:\\.|[^\]\\])*(?:&&|\[(?!:))")
_SHOWN_CHARS: Final = 20
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; `pattern` None: DEFAULT."""

    pattern: Any
    replacement: tuple[str | int, ...]
    """Texts, and numbers of groups."""
    fold: Callable[[str], str]

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        result, position = [], 0
        for match in self.pattern.finditer(subject):
            result.append(subject[position : match.start()])
            result += [
                part if isinstance(part, str) else match.group(part) or "" for part in self.replacement
            ]
            position = match.end()
        return self.fold("".join(result) + subject[position:])


class MappingRules:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises TlsProblem if there is a rule that cannot be read."""
        if len(text) > MAX_RULES_CHARS:
            raise TlsProblem(f"{OPTION} has more than {MAX_RULES_CHARS} characters")
        self._rules: list[_Rule] = []
        position, text = 0, text.strip()
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None or match.end() == position:
                raise TlsProblem(f"{OPTION}: what begins with {_shown(text[position:])} is no rule")
            position = match.end()
            if match["default"]:
                self._rules.append(_Rule(None, (), str))
            elif match["pattern"] is not None:
                self._rules.append(_rule(match["pattern"], match["replacement"], match["case"]))

    def name_of(self, subject: str) -> str | None:
        """Return the principal's name for a certificate's subject; None if no rule fits it."""
        for rule in self._rules:
            if (name := rule.apply(subject)) is not None:
                return name
        return None


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    import re2  # Only here: it takes 10 ms, and few map names.

    if _NESTED_CLASS.search(pattern):
        raise TlsProblem(f"{OPTION}: {_shown(pattern)} has a class within a class, which is not supported")
    options = re2.Options()
    options.log_errors = False  # They would go to standard error.
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        raise TlsProblem(f"{OPTION}: {_shown(pattern)} is no pattern that is supported (RE2)") from None
    return _Rule(compiled, _replacement(replacement, compiled.groups), _CASES[case])


def _shown(text: str) -> str:
    """Return how a part of the rules begins: a sentence says where to look, and is no copy."""
    return repr(text[:_SHOWN_CHARS])


def _replacement(text: str, groups: int) -> tuple[str | int, ...]:
    """Cut a replacement at its references: `$12` is group 12 if there are so many, else group 1 and a "2"."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _REFERENCE.match(text, position)
        if match is None:
            raise TlsProblem(f"{OPTION}: {_shown(text)} is no replacement")
        position = match.end()
        if match["group"] is None:
            parts.append(match["escaped"] or match["plain"])
            continue
        number = int(match["group"])
        if number > groups:
            if not groups:
                raise TlsProblem(f"{OPTION}: {_shown(text)} refers to a group, and its pattern has none")
            parts.append(f"${number}")  # As Kafka has it: there is no such group, so it is text.
            continue
        while (
            position < len(text)
            and text[position].isdecimal()
            and number * 10 + int(text[position]) <= groups
        ):
            number = number * 10 + int(text[position])
            position += 1
        parts.append(number)
    return tuple(parts)
