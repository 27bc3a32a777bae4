"""JAAS texts (S14): written by a grammar of their own and read back, then damaged.

The generator knows what a text means, since it writes each value in one of the ways that Java's StreamTokenizer
reads, with blanks and comments between; the reader has to say the same.
"""

from __future__ import annotations

import inspect
import string
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from coordinator.security.sasl import jaas
from coordinator.security.sasl.jaas import JaasError, LoginModule, parse_jaas
from tests.security.fuzz.properties import CANARY, Property, assert_sentence

MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
LETTERS: Final = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"}
"""The escapes with a meaning, by the character that each stands for."""
READER: Final = inspect.getsource(jaas)


class Written(NamedTuple):
    """A text, and the options that it gives."""

    text: str
    options: dict[str, str]


class Case(NamedTuple):
    """A text as it was written; and what takes its place from `start` to `stop`, if it is damaged."""

    written: Written
    start: int
    stop: int
    put: str | None


def quoted(value: str, chance: Random) -> str:
    """A way to write `value` in quotes."""
    quote = chance.choice("\"'")
    written = []
    for at, letter in enumerate(value):
        code = ord(letter)
        follows_digit = value[at + 1 : at + 2] in tuple("01234567")
        ways = [f"\\{code:03o}"] if code <= 0o377 else []
        if code <= 0o77 and not follows_digit:
            ways.append(f"\\{code:o}")
        if code in LETTERS:
            ways.append("\\" + LETTERS[code])
        if letter not in "\\\r\n" + quote:
            ways.append(letter)
        if letter not in string.digits + "abtnvfr":
            ways.append("\\" + letter)
        written.append(chance.choice(ways))
    return f"{quote}{''.join(written)}{quote}"


values = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just(CANARY)
keys = st.sampled_from(["user_alice", "user_bob", "username", "password", "user_a@b", ""]) | values
GAPS: Final = (" ", "\t", "\r\n", "\0", "\x1f", "/* x=1; */", "/**/", "// x=1;\n", "/ lone\n", "//\r")


def gap(chance: Random) -> str:
    """Blanks and comments, or nothing."""
    return "".join(chance.choices(GAPS, k=chance.randrange(3)))


def is_word(value: str) -> bool:
    """Whether Java reads it as one word without quotes."""
    begins = string.ascii_letters + "_$"
    return (
        value != ""
        and (value[0] in begins or value[0] >= "\xa0")
        and all(each in begins + string.digits + "-." or each >= "\xa0" for each in value)
    )


def written(options: list[tuple[str, str]], chance: Random) -> Written:
    """A text, with what it means; chance chooses among the ways to write it."""
    parts = [gap(chance), MODULE, " ", gap(chance), chance.choice(["required", "SUFFICIENT", '"optional"'])]
    for key, value in options:
        parts += [" ", gap(chance)]
        for word, behind in ((key, "="), (value, "")):
            is_bare = is_word(word) and chance.random() < 0.5
            parts += [word if is_bare else quoted(word, chance), gap(chance), behind, gap(chance)]
    parts += [gap(chance), ";", gap(chance)]
    return Written("".join(parts), dict(options))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    options = draw(st.lists(st.tuples(keys, values), max_size=4))
    whole = written(options, Random(draw(st.integers(0, 1 << 32))))
    if draw(st.booleans()):
        return Case(whole, 0, 0, None)
    start = draw(st.integers(0, len(whole.text)))
    stop = min(len(whole.text), start + draw(st.integers(0, 6)))
    put = draw(st.text("\"'\\;=/* \n" + "a0.-_$\xe9\u2028", max_size=3) | st.text(max_size=4))
    return Case(whole, start, stop, put)


def is_telling(value: str) -> bool:
    """Whether a sentence that has it has it from the text: words of the reader come up as values, too."""
    return len(value) > 8 and value not in READER


def check(case: Case) -> str:
    """What is whole is read as it was meant; what is damaged is read as something, or refused in a sentence."""
    text, options = case.written
    if case.put is not None:
        text = text[: case.start] + case.put + text[case.stop :]
    try:
        read: Any = parse_jaas(text)
    except JaasError as error:
        assert_sentence(str(error), *(each for each in options.values() if is_telling(each)))
        assert case.put is not None, f"refused: {text!r}"
        return "refused"
    assert CANARY not in repr(read)
    if case.put is None:
        assert read == LoginModule(MODULE, options), text
        return "read"
    assert all(isinstance(each, str) for pair in read.options.items() for each in pair)
    return "damaged and read"


JAAS: Final = Property("jaas", cases(), check, frozenset({"read", "refused", "damaged and read"}))
