"""Whole arrays of big-endian numbers that lie at equal distances in bytes: taken out and put in at once.

A column of numbers is moved byte by byte of its width, each as one slice with a step: for a thousand numbers of
eight bytes these are eight copies of a thousand bytes, ten microseconds, where a call of `struct` for each number
takes a hundred. What is longer than one row pays from about eight rows on.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Final, TypeAlias

SWAPS: Final = sys.byteorder == "little"
WIDTHS: Final = {code: array(code).itemsize for code in "bBhHiIqQ"}
"""Bytes of a number by its code, which `struct` and `array` share."""

Column: TypeAlias = "tuple[int, bytes | bytearray]"
"""The width of each number in bytes, and the numbers, one behind the other."""


def take_bytes(data: bytes | bytearray, start: int, stride: int, width: int, count: int) -> bytearray:
    """Return `width` bytes from each of `count` rows, the first at `start`, one row every `stride` bytes."""
    taken = bytearray(count * width)
    end = start + (count - 1) * stride + 1
    for byte in range(width):
        taken[byte::width] = data[start + byte : end + byte : stride]
    return taken


def take_numbers(data: bytes | bytearray, start: int, stride: int, code: str, count: int) -> array[int]:
    """Return a number of type `code` from each of `count` rows."""
    return numbers_in(code, take_bytes(data, start, stride, WIDTHS[code], count))


def numbers_in(code: str, data: bytes | bytearray) -> array[int]:
    """Return numbers of type `code` that lie one behind the other."""
    numbers = array(code)
    numbers.frombytes(data)
    if SWAPS:
        numbers.byteswap()
    return numbers


def column(code: str, numbers: Sequence[int]) -> Column:
    """Return numbers as a column of type `code`. Raises OverflowError for one that does not fit."""
    is_copied = isinstance(numbers, array) and numbers.typecode == code
    made = array(code, numbers if is_copied else iter(numbers))  # Of bytes each is a number.
    if SWAPS:
        made.byteswap()
    return made.itemsize, made.tobytes()


def interleave(count: int, *fields: bytes | Column) -> bytearray:
    """Return `count` rows, one behind the other, of all fields: bytes that each row has, or a column."""
    row = b"".join(field if isinstance(field, bytes) else bytes(field[0]) for field in fields)
    rows, stride, start = bytearray(row * count), len(row), 0
    for field in fields:
        if isinstance(field, bytes):
            start += len(field)
            continue
        width, data = field
        for byte in range(width):
            rows[start + byte :: stride] = data[byte::width]
        start += width
    return rows
