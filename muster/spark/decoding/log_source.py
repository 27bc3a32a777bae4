"""`__consumer_offsets` as a source of Structured Streaming in Python, which decodes the records as it reads them.

A task reads its ranges of the log and gives Spark the figures of `offsets`, a row for some ten records. What is
to be read is decided where the query is started, and comes along as a `Reach`: the source asks no cluster.
Its offsets have the form of Spark's Kafka source, {"topic":{"0":12}}.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muster.spark.decoding import offsets
from muster.spark.decoding.reading import Range, read_ranges

NAME: Final = "muster-offsets"
REACH: Final = "reach"  # The only option of the source.

Ends: TypeAlias = Mapping[int, int]
"""The end offset of each partition."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a query is to read: from `begins` if it has no checkpoint yet, up to `ends`.

    `planned` is where the newest batch ends that the checkpoint knows of, `begins` if there is none; each further
    one has at most `batch_offsets`, in as many tasks as there are `tasks`.
    """

    bootstrap: str
    kafka: Mapping[str, str] = field(repr=False)  # A password may be among them.
    topic: str
    begins: Ends
    planned: Ends
    ends: Ends
    batch_offsets: int
    tasks: int
    now_us: int  # A record later than this by offsets.AHEAD_US is a dead letter.

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Reach:
        fields = json.loads(text)
        for name in ("begins", "planned", "ends"):
            fields[name] = {int(partition): offset for partition, offset in fields[name].items()}
        return cls(**fields)


class Piece(InputPartition):
    """The offset ranges that one task reads."""

    def __init__(self, ranges: list[Range]) -> None:
        super().__init__(None)
        self.ranges = ranges


class OffsetsLog(DataSource):
    """The data source as Spark registers it; its option `reach` is a `Reach` as JSON."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return offsets.DDL

    def streamReader(self, schema: Any) -> OffsetsLogReader:  # Spark's name.
        return OffsetsLogReader(Reach.from_json(self.options[REACH]))


class OffsetsLogReader(DataSourceStreamReader):
    """Lives as long as its query: Spark asks for the next end repeatedly, without saying where it is."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._at = reach.planned

    def initialOffset(self) -> dict[str, dict[str, int]]:
        return to_spark_offset(self._reach.topic, self._reach.begins)

    def latestOffset(self) -> dict[str, dict[str, int]]:
        self._at = next_ends(self._at, self._reach.ends, self._reach.batch_offsets)
        return to_spark_offset(self._reach.topic, self._at)

    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> list[InputPartition]:
        begins, ends = start[self._reach.topic], end[self._reach.topic]
        ranges = [Range(int(each), begins.get(each, 0), ends[each]) for each in ends]
        return [Piece(some) for some in pieces(ranges, self._reach.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        reach = self._reach
        records = read_ranges(reach.bootstrap, reach.kafka, reach.topic, partition.ranges)
        yield from offsets.minutes(reach.topic, reach.now_us)(records)


def to_spark_offset(topic: str, ends: Ends) -> dict[str, dict[str, int]]:
    """`ends` in the JSON form in which Spark keeps an offset in the checkpoint."""
    return {topic: {str(partition): end for partition, end in sorted(ends.items())}}


def next_ends(at: Ends, ends: Ends, most: int) -> dict[int, int]:
    """The ends of a batch of `most` offsets from `at` on, in proportion to what each partition has left."""
    left = {partition: max(end - at.get(partition, 0), 0) for partition, end in ends.items()}
    share = min(1.0, most / max(sum(left.values()), 1))
    return {
        partition: at.get(partition, 0) + min(count, max(int(count * share), 1))
        for partition, count in left.items()
    }


def pieces(ranges: list[Range], count: int) -> list[list[Range]]:
    """The ranges divided into at most `count` pieces of equal size; a range is cut where a piece is full."""
    each = -(-sum(one.end - one.start for one in ranges) // count)
    found: list[list[Range]] = [[]]
    room = each
    for one in ranges:
        start = one.start
        while start < one.end:
            if room == 0:
                found.append([])
                room = each
            end = min(one.end, start + room)
            found[-1].append(Range(one.partition, start, end))
            room -= end - start
            start = end
    return [some for some in found if some]
