"""Finds where logs ended at the end of each of many minutes, with few requests: ListOffsets by time.

The log's end at a time is the offset of the first record that is not older, or the end as it is now if there is
none. Ends only grow, so where two minutes have the same one all between them do, and nothing is asked for those:
partitions without new records cost two questions, whatever the span. Of records that retention has removed no
time is known: an answer that is the log's beginning says nothing, unless that is offset 0. A topic that is not
there has no ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from muster.spark.clients import EARLIEST, LATEST, TIMEOUT_S, error_text, log_offsets, new_job_admin
from muster.spark.decoding.lag import UNKNOWN
from muster.spark.decoding.windows import Ints
from muster.spark.errors import PassingError
from protocol.topic_partition import TopicPartition

MAX_LOOKUPS: Final = 500_000
"""Lookups per step: some minutes of a broker's time. The newest go first; what is not looked up is UNKNOWN."""
MAX_PER_REQUEST: Final = 5_000
_GONE: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


@dataclass(slots=True)
class MinuteEnds:
    """`ends[where][i]` is a partition's log end at `times_ms[i]`, or UNKNOWN; `missing` topics have none."""

    times_ms: Ints
    ends: dict[TopicPartition, Ints] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    skipped: int = 0  # Minutes of partitions not looked up, being too many.


@dataclass(frozen=True, slots=True)
class _OpenInterval:
    """Two time indexes of a partition whose log ends differ, with unknown ends between them."""

    where: TopicPartition
    low: int
    high: int


class LogEnds:
    """Asks one cluster for the log ends of one step."""

    def __init__(self, bootstrap: str, kafka: Mapping[str, str]) -> None:
        self._admin = new_job_admin(bootstrap, kafka)
        self._asked = 0

    def at(self, times_ms: Sequence[int], wanted: Iterable[TopicPartition]) -> MinuteEnds:
        """The log ends at `times_ms`, which must rise. Raises PassingError if the cluster does not answer."""
        found = MinuteEnds(np.asarray(times_ms, np.int64))
        there = self._existing(wanted, found)
        if not len(found.times_ms) or not there:
            return found
        now = self._list_offsets(dict.fromkeys(there, LATEST), found)  # First, for the reason in `_look_up`.
        begins = self._list_offsets(dict.fromkeys(now, EARLIEST), found)
        for where in begins:
            found.ends[where] = np.full(len(found.times_ms), UNKNOWN, np.int64)
        self._fill(found, now, begins)
        return found

    def _existing(self, wanted: Iterable[TopicPartition], found: MinuteEnds) -> list[TopicPartition]:
        """The wanted partitions that exist; topics of the others are added to `found.missing`."""
        try:
            topics = self._admin.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as error:
            raise PassingError(f"the topics could not be listed: {error_text(error)}") from None
        there = []
        for topic, partition in sorted(set(wanted)):
            if topic in topics and partition in topics[topic].partitions:
                there.append(TopicPartition(topic, partition))
            else:
                found.missing.add(topic)
        return there

    def _fill(
        self, found: MinuteEnds, now: Mapping[TopicPartition, int], begins: Mapping[TopicPartition, int]
    ) -> None:
        """Look up each partition's first and last time, then the middle of each open interval, level by level."""
        last = len(found.times_ms) - 1
        ends = [(where, index) for where in begins for index in sorted({0, last})]
        self._look_up(found, ends, now, begins)
        gaps = [_OpenInterval(where, 0, last) for where in begins]
        while gaps := [gap for gap in gaps if self._is_open(found, gap)]:
            gaps.sort(key=lambda gap: -gap.high)
            room = max(MAX_LOOKUPS - self._asked, 0)
            found.skipped += sum(gap.high - gap.low - 1 for gap in gaps[room:])
            gaps = gaps[:room]
            middles = [(gap.where, (gap.low + gap.high) // 2) for gap in gaps]
            self._look_up(found, middles, now, begins)
            gaps = [
                half
                for gap, (where, middle) in zip(gaps, middles, strict=True)
                for half in (_OpenInterval(where, gap.low, middle), _OpenInterval(where, middle, gap.high))
            ]

    def _is_open(self, found: MinuteEnds, gap: _OpenInterval) -> bool:
        """Whether the interval needs a lookup within; if its two ends are equal, all between are set to them."""
        ends = found.ends.get(gap.where)
        if ends is None or gap.high - gap.low < 2:
            return False
        if ends[gap.low] == ends[gap.high]:
            ends[gap.low : gap.high] = ends[gap.low]
            return False
        return True

    def _look_up(
        self,
        found: MinuteEnds,
        places: Sequence[tuple[TopicPartition, int]],
        now: Mapping[TopicPartition, int],
        begins: Mapping[TopicPartition, int],
    ) -> None:
        """Look up log ends of partitions at time indexes, by one request per time: it has each partition once."""
        by_index: dict[int, list[TopicPartition]] = {}
        for where, index in places:
            by_index.setdefault(index, []).append(where)
        for index, wheres in by_index.items():
            spec = OffsetSpec.for_timestamp(int(found.times_ms[index]))
            for where, offset in self._list_offsets(dict.fromkeys(wheres, spec), found).items():
                end = UNKNOWN if 0 < offset == begins[where] else offset
                # No record is so new: the end from before the lookups. Records that came since are not older.
                found.ends[where][index] = now[where] if offset < 0 else end

    def _list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], found: MinuteEnds
    ) -> dict[TopicPartition, int]:
        """The offset of each partition. One whose topic was deleted meanwhile is left out. Raises PassingError."""
        offsets: dict[TopicPartition, int] = {}
        pairs = list(specs.items())
        for first in range(0, len(pairs), MAX_PER_REQUEST):
            some = pairs[first : first + MAX_PER_REQUEST]
            self._asked += len(some)
            answered = log_offsets(self._admin, dict(some))
            offsets |= answered.found
            for where, error in answered.refused.items():
                if error.code() not in _GONE:
                    raise PassingError(f"no log end of {where[0]}: {error.str()}")
                found.missing.add(where[0])
                found.ends.pop(where, None)
        return offsets
