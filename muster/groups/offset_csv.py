"""Plans of resets as kafka-consumer-groups writes and reads them: comma-separated values.

A line is topic, partition, offset; where a plan is about several groups, the group comes first. There is no
heading. Texts are quoted where Kafka's tool quotes them, which is where they hold a character up to the comma in
ASCII, or are longer than 24 characters; both tools read either form.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from muster.groups.offsets import Move
from protocol.topic_partition import TopicPartition

MAX_INT64: Final = 2**63 - 1
MAX_INT32: Final = 2**31 - 1
_LONGEST_BARE: Final = 24  # Characters, as Java counts them.
_SAFE_FROM: Final = "-"  # The character after the comma.

Plan = dict[str | None, dict[TopicPartition, int]]
"""The offsets by group; None where the lines name no group."""


class CsvError(ValueError):
    """The text is no plan; the message is a sentence for the user."""


def plan_lines(moves: Mapping[str, Iterable[Move]], names_groups: bool) -> list[str]:
    """The lines of a plan, with the group in each if `names_groups`."""
    return [
        ",".join(
            [
                *([_field(group_id)] if names_groups else []),
                _field(move.topic),
                str(move.partition),
                str(move.to_offset),
            ]
        )
        for group_id, each in moves.items()
        for move in each
    ]


def _field(text: str) -> str:
    length = len(text.encode("utf-16-le")) // 2
    if length <= _LONGEST_BARE and text and all(each >= _SAFE_FROM for each in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises CsvError."""
    try:
        return parse_plan(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CsvError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CsvError(f"{path} is no UTF-8: {error.reason}") from None
    except CsvError as error:
        raise CsvError(f"{path}, {error}") from None


def parse_plan(text: str) -> Plan:
    """The plan in a text; a partition that comes twice has the later offset. Raises CsvError."""
    plan: Plan = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if not cells:
                continue
            if len(cells) not in (3, 4):
                raise CsvError(f"line {reader.line_num}: [GROUP,]TOPIC,PARTITION,OFFSET is wanted")
            group_id = cells[0] if len(cells) == 4 else None
            partition = _number(cells[-2], MAX_INT32, "partition", reader.line_num)
            offset = _number(cells[-1], MAX_INT64, "offset", reader.line_num)
            plan.setdefault(group_id, {})[TopicPartition(cells[-3], partition)] = offset
    except csv.Error as error:
        raise CsvError(f"line {reader.line_num}: {error}") from None
    return plan


def _number(text: str, most: int, what: str, line: int) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
        raise CsvError(f"line {line}: the {what} must be a whole number from 0 to {most}, not {text!r}")
    return int(text)
