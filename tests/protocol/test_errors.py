"""`ErrorCode` is Kafka 4.3.1's table: no code missing, none misnamed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import kio.schema.errors
import pytest

from harness import java_tools
from protocol.errors import DecodeError, EncodeError, ErrorCode

SOURCES = Path(__file__).parent.parent / "java"
TABLE = {code.name: code.value for code in ErrorCode}


def test_the_codes_run_from_minus_one_to_133_without_a_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 134))
    assert (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE) == (-1, 0)


def test_the_codes_are_those_of_kio() -> None:
    assert {code.name.upper(): code.value for code in kio.schema.errors.ErrorCode} == TABLE


@pytest.mark.usefixtures("java")
def test_the_codes_are_those_of_the_jars() -> None:
    classes = java_tools.compile_java(SOURCES)
    command = [java_tools.java(), "-cp", java_tools.classpath(classes), "ErrorTable"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [line.split() for line in printed.splitlines()]
    assert {name: int(number) for name, number in lines} == TABLE


def test_only_none_is_false() -> None:
    """Only NONE is false, so that `if error := ...` is true for an error."""
    assert [code for code in ErrorCode if not code] == [ErrorCode.NONE]


def test_what_is_wrong_with_bytes_is_a_value_error() -> None:
    assert issubclass(DecodeError, ValueError)
    assert issubclass(EncodeError, ValueError)
