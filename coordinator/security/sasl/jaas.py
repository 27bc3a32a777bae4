"""Reads the text of `sasl.jaas.config` as Kafka does, with the rules of Java's StreamTokenizer (S14).

One login module, a control flag, options as key=value, and a semicolon. Values are in quotes, with Java's escapes,
or bare words; a bare word that begins with a digit, a dot or a hyphen is a number to Java, and refused. `//`, `/*`
and a lone `/` begin comments. What is wrong is said by its place: the text holds passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

CONTROL_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
MAX_CHARS: Final = 1 << 20
"""Longest text that is read: some ten thousand users."""

_BLANKS: Final = re.compile(r"[\x00-\x20]+")
_LINE_COMMENT: Final = re.compile(r"/[^\r\n]*")
_WORD: Final = re.compile(r"[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*")
_NUMBER: Final = re.compile(r"-?[0-9.]+")
_QUOTES: Final = frozenset("\"'")
_QUOTED: Final = {quote: re.compile(rf"(?:[^\\{quote}\r\n]|\\[\s\S])*") for quote in _QUOTES}
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[\s\S])")
_OCTAL: Final = frozenset("01234567")
_LETTERS: Final = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b"}


class JaasError(ValueError):
    """Raised for a text that is no login module; the sentence holds nothing of the text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """What the text says: the module's class, and its options, which may be secret."""

    name: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, quoted or not (`word`), or a single character, a number counting as one (`word` is None)."""

    position: int
    word: str | None
    character: str = ""


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module in `text`. Raises JaasError."""
    if len(text) > MAX_CHARS:
        raise JaasError(f"is longer than {MAX_CHARS} characters")
    tokens = _tokens(text)
    module = _module(tokens)
    if next(tokens, None) is not None:
        raise JaasError("names more than one login module")
    return module


def _module(tokens: Iterator[_Token]) -> LoginModule:
    first = next(tokens, None)
    if first is None:
        raise JaasError("names no login module")
    if first.word is None:
        raise JaasError(f"begins with no login module's class (character {first.position + 1})")
    flag = next(tokens, None)
    if flag is None or flag.word is None or flag.word.lower() not in CONTROL_FLAGS:
        flags = ", ".join(sorted(CONTROL_FLAGS))
        raise JaasError(f"has no control flag behind the login module's class, which may be {flags}")
    return LoginModule(first.word, dict(_options(tokens)))


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, str]]:
    for key in tokens:
        if key.character == ";":
            return
        equals, value = next(tokens, None), next(tokens, None)
        if key.word is None:
            raise JaasError(f"has an option without a name at character {key.position + 1}")
        if equals is None or equals.character != "=" or value is None or value.word is None:
            raise JaasError(
                f"has an option without a value at character {key.position + 1}: a value that does not begin with "
                "a letter needs quotes"
            )
        yield key.word, value.word
    raise JaasError("does not end in a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        if (skipped := _skipped(text, position)) > position:
            position = skipped
            continue
        start, character = position, text[position]
        if character in _QUOTES:
            inside = _QUOTED[character].match(text, position + 1)
            assert inside is not None, "it may be empty"
            yield _Token(start, _ESCAPE.sub(_unescaped, inside[0]))
            position = inside.end() + (text[inside.end() : inside.end() + 1] == character)
        elif (number := _NUMBER.match(text, position)) is not None:
            yield _Token(start, None, "a number")
            position = number.end()
        elif (word := _WORD.match(text, position)) is not None:
            yield _Token(start, word[0])
            position = word.end()
        else:
            yield _Token(start, None, character)
            position += 1


def _skipped(text: str, position: int) -> int:
    """Return where the blanks or the comment at `position` end."""
    if (blanks := _BLANKS.match(text, position)) is not None:
        return blanks.end()
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    comment = _LINE_COMMENT.match(text, position)
    return position if comment is None else comment.end()


def _unescaped(escape: re.Match[str]) -> str:
    body = escape[1]
    return chr(int(body, 8)) if body[0] in _OCTAL else _LETTERS.get(body, body)
