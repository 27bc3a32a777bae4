"""The text of JAAS as Kafka reads it, which is as Java's StreamTokenizer does (S14)."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.sasl.jaas import MAX_CHARS, JaasError, LoginModule, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas(f"{MODULE} required {text};").options)


def test_a_module_with_its_flag_and_options() -> None:
    read = parse_jaas(f'{MODULE} required user_alice="secret" serviceName=kafka;')
    assert read == LoginModule(MODULE, {"user_alice": "secret", "serviceName": "kafka"})


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional", '"required"'])
def test_flags_are_taken_in_any_case(flag: str) -> None:
    assert parse_jaas(f"{MODULE} {flag};").name == MODULE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('a="x y"', "x y"),
        ("a='x\"y'", 'x"y'),
        (r'a="x\"y\\z"', 'x"y\\z'),
        (r'a="\101\7\477"', "A\x07\x277"),  # Three octal digits up to 377, else two.
        (r'a="\n\t\r\f\b\v\a\q"', "\n\t\r\f\b\v\aq"),
        ("a=word", "word"),
        ("a=_w-o.r$d9", "_w-o.r$d9"),
        ("a=größe", "größe"),
        ('a=""', ""),
        ('a="//no comment /* either */"', "//no comment /* either */"),
        ('a = "spaced"', "spaced"),
        ('a="first" a="last"', "last"),
    ],
)
def test_values(text: str, value: str) -> None:
    assert options(text) == {"a": value}


def test_keys_may_be_quoted() -> None:
    assert options('"user_a@b"="x"') == {"user_a@b": "x"}


@pytest.mark.parametrize("comment", ["// a=1\n", "/* a=1 */", "/ a=1\n", "/*", "//"])
def test_comments_are_skipped(comment: str) -> None:
    assert parse_jaas(f"{comment if comment.endswith((chr(10), '*/')) else ''}{MODULE} required;{comment}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " // only a comment",
        MODULE,
        f"{MODULE} required",
        f"{MODULE} needed;",
        f"{MODULE} required a;",
        f"{MODULE} required a=;",
        f"{MODULE} required a=1abc;",
        f"{MODULE} required a=-b;",
        f"{MODULE} required a=.b;",
        f'{MODULE} required 1="x";',
        f'{MODULE} required a="x"',
        f'{MODULE} required a="x;',
        f"{MODULE} required a=x, b=y;",
        f"{MODULE} required; {MODULE} required;",
        f"{MODULE} required;;",
        "; required;",
        "x" * (MAX_CHARS + 1),
    ],
)
def test_what_is_no_login_module_is_refused(text: str) -> None:
    """S14, S15."""
    with pytest.raises(JaasError):
        parse_jaas(text)


@given(st.text(alphabet=string.printable + "\\\"';=/*äß\u2028\x80", max_size=80), st.integers(0, 90))
def test_any_text_is_read_or_refused_in_one_sentence_without_its_content(text: str, cut: int) -> None:
    canary = "Sesame2026"
    whole = f'{MODULE} required user_a="{canary}" {text};'
    try:
        said = repr(parse_jaas(whole[: len(MODULE) + cut]))
    except JaasError as error:
        said = str(error)
    assert canary not in said
    assert "\n" not in said


@given(st.text(max_size=60))
def test_a_quoted_value_comes_back_as_it_was(value: str) -> None:
    """Escaped as Java's tokenizer needs it: all but letters and digits by three octal digits, up to 377."""
    if any(ord(letter) > 0o377 and not letter.isalnum() for letter in value):
        return
    escaped = "".join(
        letter if letter.isalnum() or letter == " " or ord(letter) > 0o377 else f"\\{ord(letter):03o}"
        for letter in value
    )
    assert options(f'a="{escaped}"') == {"a": value}
