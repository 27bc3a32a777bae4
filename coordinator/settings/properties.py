"""Reads a properties file by Java's rules, as `server.properties` is written.

A logical line is one or more natural lines joined by a backslash at the end; `#` and `!` begin comments; a
key ends at the first bare `=`, `:` or blank; `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes, and a
backslash before anything else vanishes. It knows nothing of settings. One liberty: where Java reads the
bytes as Latin-1, UTF-8 is tried first, since that is what editors write today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 1 << 20  # A larger file was named by mistake, such as a log.
_BLANKS: Final = " \t\f"
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")  # Not splitlines(): that also splits at form feeds.
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS: Final = re.compile(r"[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True)
class Property:
    """One entry of a properties file; `line` is the number of its first line, counted from 1."""

    name: str
    value: str
    line: int


class PropertiesError(ValueError):
    """Raised if the file cannot be read or has malformed escapes; `problems` holds a sentence for each reason.

    `entries` are those that could be read; `unread` are the names of those that could not, None for all names.
    """

    def __init__(
        self,
        problems: Sequence[str],
        entries: Sequence[Property] = (),
        unread: Sequence[str] | None = None,
    ) -> None:
        self.problems = tuple(problems)
        self.entries = tuple(entries)
        self.unread = unread
        super().__init__("\n".join(self.problems))


class _Malformed(ValueError):
    """Raised for a malformed escape, in the value of `name`, or in the name itself if `name` is None."""

    name: str | None = None


def read_properties_file(path: Path) -> list[Property]:
    """Return the entries of the file at `path`, in order. Raises PropertiesError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PropertiesError([f"cannot read {path}: {error.strerror or error}"]) from None
    if len(content) > MAX_FILE_BYTES:
        raise PropertiesError([f"{path} is larger than {MAX_FILE_BYTES} bytes: is it a properties file?"])
    return properties_in(content, path)


def properties_in(content: bytes, path: Path) -> list[Property]:
    """Return the entries of `content`, as `path` has it, in order. Raises PropertiesError."""
    try:
        return parse_properties(_text(content))
    except PropertiesError as error:
        problems = [f"{path}, {problem}" for problem in error.problems]
        raise PropertiesError(problems, error.entries, error.unread) from None


def parse_properties(text: str) -> list[Property]:
    """Return the entries of `text`, in order; a name that occurs twice has two entries. Raises PropertiesError."""
    entries: list[Property] = []
    problems: list[str] = []
    unread: list[str] = []
    for number, line in _logical_lines(text):
        try:
            entries.append(_property(line, number))
        except _Malformed as error:
            problems.append(f"line {number}: {error}")
            unread += [error.name] if error.name is not None else []
    if problems:
        raise PropertiesError(problems, entries, unread)
    return entries


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    begun = 0
    joined = ""
    for number, natural in enumerate(_LINE_ENDS.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not begun:
            if not line or line[0] in "#!":
                continue  # A comment or a blank line; neither can be continued.
            begun = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield begun, joined + line
        begun, joined = 0, ""
    if begun:
        yield begun, joined  # The last line of the file ends in a backslash.


def _property(line: str, number: int) -> Property:
    end = _key_end(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    name = _unescaped(line[:end])
    try:
        return Property(name, _unescaped(rest), number)
    except _Malformed as error:
        error.name = name
        raise


def _key_end(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character, position = text[position], position + 1
        if character == "\\" and position < len(text):
            character, position = _escape(text, position)
        elif character == "\\":
            break  # A lone backslash at the very end is ignored.
        out.append(character)
    return "".join(out)


def _escape(text: str, position: int) -> tuple[str, int]:
    """Return the character for the escape whose backslash is before `position`, and where the escape ends."""
    letter = text[position]
    if letter != "u":
        return _ESCAPES.get(letter, letter), position + 1
    match = _HEX_DIGITS.match(text, position + 1)
    if match is None:
        raise _Malformed("\\u must be followed by four hexadecimal digits")
    return chr(int(match[0], 16)), match.end()
