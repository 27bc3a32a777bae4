"""The lines of single partitions, and those under the names of other exporters; only if they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.metrics.families import KAFKA_EXPORTER, KMINION, PARTITIONS, Family
from coordinator.metrics.group_series import ROWS_AT_ONCE, Row, Shown
from coordinator.metrics.lag import LagMeter
from coordinator.metrics.text import label_value, number

ALL: Final = "all"
LAGGING: Final = "lagging"
OFF: Final = "off"

PARTITIONS_AT_ONCE: Final = 500
"""Partitions that are looked at between two chunks."""


class PartitionRow(NamedTuple):
    """One partition in which a group has a committed offset."""

    group: str  # What is between the quotes.
    topic: str  # Likewise.
    number: int
    offset: int
    records: int
    seconds: float | None


class TopicRow(NamedTuple):
    """A group and a topic."""

    group: str
    topic: str
    records: int
    offsets: int  # The sum of the committed offsets.


class PartitionSeries:
    """Makes the lines: `partitions` says of which partitions, `compatible` under whose names as well."""

    def __init__(
        self,
        meter: LagMeter,
        partitions: str,
        compatible: Collection[str],
        node_id: int,
        commits_of: Callable[[str], int],
    ) -> None:
        self._meter, self._partitions, self._node_id = meter, partitions, node_id
        self._commits_of = commits_of
        self._kafka_exporter = "kafka_exporter" in compatible
        self._kminion = "kminion" in compatible

    def lines(self, rows: Sequence[Shown]) -> Iterator[str]:
        """Yield the head of each metric, and its lines; or "" where there was work."""
        if self._partitions == OFF and not (self._kafka_exporter or self._kminion):
            return
        found: list[PartitionRow] = []
        topics: list[TopicRow] = []
        for each in rows:
            for _ in self._look_up(each.row, found, topics):
                yield ""
        if self._partitions != OFF:
            shown = found if self._partitions == ALL else [each for each in found if each.records]
            yield from _many(PARTITIONS, shown, _OWN)
        if self._kafka_exporter:
            name = "kafka_consumergroup_members"
            yield KAFKA_EXPORTER[name].head
            yield from _of_groups(rows, lambda shown: _members(shown, name, "consumergroup"))
            yield from _many(KAFKA_EXPORTER, found, _KAFKA_EXPORTER)
            yield from _many(KAFKA_EXPORTER, topics, _KAFKA_EXPORTER_TOPICS)
        if self._kminion:
            yield from self._lines_of_kminion(rows, found, topics)

    def _look_up(self, row: Row, found: list[PartitionRow], topics: list[TopicRow]) -> Iterator[None]:
        """Add the partitions and topics of a group; yield now and then."""
        for topic, offsets in tuple(row.shard.offsets.by_topic(row.group_id).items()):
            partitions, ends = self._meter.ends_of(topic)
            name = label_value(topic)
            records = total = 0
            for number_of, (index, committed) in enumerate([*offsets.items()]):
                if number_of % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                    yield
                if index >= len(ends):
                    continue
                behind = max(ends[index] - committed.offset, 0)
                waited_s = self._meter.seconds(partitions[index], committed.offset) if behind else 0.0
                found.append(PartitionRow(row.value, name, index, committed.offset, behind, waited_s))
                records, total = records + behind, total + committed.offset
            if partitions:
                topics.append(TopicRow(row.value, name, records, total))
            yield

    def _lines_of_kminion(
        self, rows: Sequence[Shown], found: Sequence[PartitionRow], topics: Sequence[TopicRow]
    ) -> Iterator[str]:
        prefix = "kminion_kafka_consumer_group"
        of_groups: dict[str, Callable[[Shown], str]] = {
            f"{prefix}_info": lambda shown: self._kminion_info(shown.row),
            f"{prefix}_members": lambda shown: _members(shown, f"{prefix}_members", "group_id"),
            f"{prefix}_offset_commits_total": self._kminion_commits,
        }
        for name, lines_of in of_groups.items():
            yield KMINION[name].head
            yield from _of_groups(rows, lines_of)
        yield from _many(KMINION, found, _KMINION)
        yield from _many(KMINION, topics, _KMINION_TOPICS)

    def _kminion_commits(self, shown: Shown) -> str:
        commits = self._commits_of(shown.row.group_id)
        return (
            f'kminion_kafka_consumer_group_offset_commits_total{{group_id="{shown.row.value}"}} {commits}\n'
        )

    def _kminion_info(self, row: Row) -> str:
        protocol_type, protocol = "consumer", ""
        classic = row.shard.groups.get(row.group_id)
        if classic is not None:
            protocol_type, protocol = classic.protocol_type or "", classic.protocol_name or ""
        labels = (
            f'group_id="{row.value}",protocol="{label_value(protocol)}",'
            f'protocol_type="{label_value(protocol_type)}",state="{row.living.state}",'
            f'coordinator_id="{self._node_id}"'
        )
        return f"kminion_kafka_consumer_group_info{{{labels}}} {int(row.living.state == 'Stable')}\n"


def _of_groups(rows: Sequence[Shown], line_of: Callable[[Shown], str]) -> Iterator[str]:
    """Yield a line of each group."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield "".join([line_of(shown) for shown in rows[start : start + ROWS_AT_ONCE]])


def _members(shown: Shown, name: str, label: str) -> str:
    return f'{name}{{{label}="{shown.row.value}"}} {shown.row.living.members}\n'


Value = Callable[..., float | None]

_OWN: Final[Mapping[str, Value]] = {
    "muster_group_partition_lag": lambda row: row.records,
    "muster_group_partition_lag_seconds": lambda row: row.seconds,
    "muster_group_partition_offset": lambda row: row.offset,
}
_KAFKA_EXPORTER: Final[Mapping[str, Value]] = {
    "kafka_consumergroup_current_offset": lambda row: row.offset,
    "kafka_consumergroup_lag": lambda row: row.records,
}
_KAFKA_EXPORTER_TOPICS: Final[Mapping[str, Value]] = {
    "kafka_consumergroup_current_offset_sum": lambda row: row.offsets,
    "kafka_consumergroup_lag_sum": lambda row: row.records,
}
_KMINION: Final[Mapping[str, Value]] = {
    "kminion_kafka_consumer_group_topic_partition_lag": lambda row: row.records,
}
_KMINION_TOPICS: Final[Mapping[str, Value]] = {
    "kminion_kafka_consumer_group_topic_lag": lambda row: row.records,
    "kminion_kafka_consumer_group_topic_offset_sum": lambda row: row.offsets,
}


def _many(
    families: Mapping[str, Family],
    rows: Sequence[PartitionRow] | Sequence[TopicRow],
    values: Mapping[str, Value],
) -> Iterator[str]:
    """Yield the lines of some metrics of partitions, or of topics."""
    for name, value_of in values.items():
        yield families[name].head
        for start in range(0, len(rows), PARTITIONS_AT_ONCE):
            some = rows[start : start + PARTITIONS_AT_ONCE]
            yield "".join([_line(families[name], row, value_of(row)) for row in some])


def _line(family: Family, row: PartitionRow | TopicRow, value: float | None) -> str:
    """One line; none if there is no value. The labels are those of the metric, in its order."""
    if value is None:
        return ""
    texts = zip(family.labels, row[: len(family.labels)], strict=True)
    labels = ",".join([f'{name}="{text}"' for name, text in texts])
    return f"{family.name}{{{labels}}} {number(value)}\n"
