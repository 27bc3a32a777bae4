"""The lines of single partitions, and those under the names of other exporters; only if they are asked for.

Of so many partitions at most as `muster.metrics.partitions.max` says, those of the groups first that are furthest
behind, and of as many of topics: 20 groups with an offset in each of 10,000 partitions would be a page of 100 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.metrics.families import KAFKA_EXPORTER, KMINION, PARTITIONS, Family
from coordinator.metrics.group_series import ROWS_AT_ONCE, Row, Shown
from coordinator.metrics.lag import LagMeter, Topics
from coordinator.metrics.living_groups import empty_members
from coordinator.metrics.text import label_value, number
from coordinator.offsets.topic_offsets import ROW
from coordinator.settings.model import Settings

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


class TopicPartition(NamedTuple):
    """A partition of a topic, whoever reads it."""

    topic: str
    number: int
    end: int


class PartitionSeries:
    """Makes the lines: the settings say of which partitions, and under whose names as well."""

    def __init__(
        self, meter: LagMeter, topics: Topics, settings: Settings, commits_of: Callable[[str], int]
    ) -> None:
        self._meter, self._topics, self._commits_of = meter, topics, commits_of
        self._partitions, self._node_id = settings.muster_metrics_partitions, settings.node_id
        self._most = settings.muster_metrics_partitions_max
        self._kafka_exporter = "kafka_exporter" in settings.muster_metrics_compatible
        self._kminion = "kminion" in settings.muster_metrics_compatible
        self.shown = self.left_out = 0
        """Partitions, as of the last page."""

    def lines(self, rows: Sequence[Shown]) -> Iterator[str]:
        """Yield the head of each metric, and its lines; or "" where there was work."""
        self.shown = self.left_out = 0
        if self._partitions == OFF and not (self._kafka_exporter or self._kminion):
            return
        found: list[PartitionRow] = []
        topics: list[TopicRow] = []
        for each in sorted(rows, key=_records, reverse=True):
            for _ in self._look_up(each.row, found, topics):
                yield ""
        self.shown = len(found)
        if self._partitions != OFF:
            shown = found if self._partitions == ALL else [each for each in found if each.records]
            yield from _many(PARTITIONS, shown, _OWN)
        if self._kafka_exporter:
            name = "kafka_consumergroup_members"
            yield KAFKA_EXPORTER[name].head
            yield from _of_groups(rows, lambda shown: _members(shown, name, "consumergroup"))
            yield from _many(KAFKA_EXPORTER, found, _KAFKA_EXPORTER)
            yield from _many(KAFKA_EXPORTER, topics, _KAFKA_EXPORTER_TOPICS)
            yield from self._lines_of_topics()
        if self._kminion:
            yield from self._lines_of_kminion(rows, found, topics)

    def _look_up(self, row: Row, found: list[PartitionRow], topics: list[TopicRow]) -> Iterator[None]:
        """Add the topics of a group, and its partitions while there is room; yield now and then."""
        is_all = self._partitions == ALL or self._kafka_exporter or self._kminion
        for topic, offsets in tuple(row.shard.offsets.by_topic(row.group_id).items()):
            partitions, ends = self._meter.ends_of(topic)
            name = label_value(topic)
            records = total = 0
            of_partitions = zip(offsets.partitions[:], ROW.iter_unpack(bytes(offsets.rows)), strict=True)
            for number_of, (index, (offset, *_)) in enumerate(of_partitions):
                if number_of % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                    yield
                if index >= len(ends):
                    continue
                behind = max(ends[index] - offset, 0)
                records, total = records + behind, total + offset
                if not (behind or is_all):
                    continue
                if len(found) >= self._most:
                    self.left_out += 1
                    continue
                waited_s = self._meter.seconds(partitions[index], offset) if behind else 0.0
                found.append(PartitionRow(row.value, name, index, offset, behind, waited_s))
            if partitions:
                topics.append(TopicRow(row.value, name, records, total))
            yield

    def _lines_of_topics(self) -> Iterator[str]:
        """Yield the lines of all topics, whether or not a group reads them."""
        counts = KAFKA_EXPORTER["kafka_topic_partitions"]
        ends: list[TopicPartition] = []
        yield counts.head
        for topic in self._topics.all():
            name, of_topic = label_value(topic.name), self._meter.ends_of(topic.name)[1]
            yield f'{counts.name}{{topic="{name}"}} {len(of_topic)}\n'
            room = max(self._most - len(ends), 0)
            ends += [TopicPartition(name, index, end) for index, end in enumerate(of_topic[:room])]
            self.left_out += max(len(of_topic) - room, 0)
        self.shown += len(ends)
        yield from _many(KAFKA_EXPORTER, ends, _TOPIC_PARTITIONS)

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
        name = f"{prefix}_empty_members"
        yield KMINION[name].head
        for shown in rows:  # Each by itself: members' assignments are decoded.
            empty = empty_members(shown.row.shard, shown.row.group_id)
            yield "" if empty is None else f'{name}{{group_id="{shown.row.value}"}} {empty}\n'
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


def _records(shown: Shown) -> int:
    return shown.row.found.records


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
_TOPIC_PARTITIONS: Final[Mapping[str, Value]] = {
    "kafka_topic_partition_current_offset": lambda row: row.end,
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
    rows: Sequence[PartitionRow] | Sequence[TopicRow] | Sequence[TopicPartition],
    values: Mapping[str, Value],
) -> Iterator[str]:
    """Yield the lines of some metrics of partitions, or of topics."""
    for name, value_of in values.items():
        yield families[name].head
        for start in range(0, len(rows), PARTITIONS_AT_ONCE):
            some = rows[start : start + PARTITIONS_AT_ONCE]
            yield "".join([_line(families[name], row, value_of(row)) for row in some])


def _line(family: Family, row: PartitionRow | TopicRow | TopicPartition, value: float | None) -> str:
    """One line; none if there is no value. The labels are those of the metric, in its order."""
    if value is None:
        return ""
    texts = zip(family.labels, row[: len(family.labels)], strict=True)
    labels = ",".join([f'{name}="{text}"' for name, text in texts])
    return f"{family.name}{{{labels}}} {number(value)}\n"
