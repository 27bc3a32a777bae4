"""What producers write and readers check, the same in every language (Codecs.java has a copy of this).

A label names who wrote a record and how: "family/codec/acks". Each label gets RECORDS_PER_LABEL records, of
which the last has no value; key and header carry the label and the codec, so that a reader can check a
record by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Idempotent producers wait for all replicas, so "idempotent" stands for acks=all with a producer id.
ACKS = ("0", "1", "all", "idempotent")
RECORDS_PER_LABEL = 41
VALUE_CHARS = 2_000  # Times the records of a label: more than the 32 KiB blocks of Java's snappy.


def labels(family: str) -> list[str]:
    """Every label that one client library writes."""
    return [f"{family}/{codec}/{acks}" for codec in CODECS for acks in ACKS]


def value(label: str, number: int) -> bytes | None:
    """The value of a label's record `number`; None for the last."""
    if number == RECORDS_PER_LABEL - 1:
        return None
    unit = f"{label}#{number} "
    return (unit * (VALUE_CHARS // len(unit) + 1))[:VALUE_CHARS].encode()


class Checker:
    """Counts the right records of each label; a wrong one raises AssertionError."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def check(
        self, key: bytes, record_value: bytes | None, headers: Mapping[str, str | bytes | None]
    ) -> None:
        label = key.decode()
        if (digits := headers["number"]) is None:
            raise AssertionError(f"{label} came back without its number")
        number = int(digits)
        if headers["codec"] != label.split("/")[1].encode() or record_value != value(label, number):
            raise AssertionError(f"{label}#{number} came back as {record_value!r:.100} with {headers}")
        self.counts[label] += 1


def headers(label: str, number: int) -> list[tuple[str, bytes]]:
    """The headers of a label's record `number`."""
    return [("codec", label.split("/")[1].encode()), ("number", str(number).encode())]
