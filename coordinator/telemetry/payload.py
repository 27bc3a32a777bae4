"""What a push says, as far as it is kept: some metrics of a consumer, and the labels that say which member it is.

A push is OpenTelemetry's MetricsData, compressed or not. Both the inflated size and, with it, the work are bounded
by `telemetry.max.bytes`, and by MAX_PARTS the part of it that is Python. Runs on a thread, looks at nothing that
changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.records.batch import Codec
from protocol.records.compression import decompress

PREFIX: Final = "org.apache.kafka.consumer."

KEPT: Final = {
    "time.between.poll.max": ("time_between_poll_max_ms", 1),
    "last.poll.seconds.ago": ("last_poll_ago_ms", 1000),
    "coordinator.rebalance.latency.avg": ("rebalance_latency_avg_ms", 1),
    "coordinator.rebalance.latency.max": ("rebalance_latency_max_ms", 1),
    "coordinator.last.heartbeat.seconds.ago": ("last_heartbeat_ago_ms", 1000),
}
"""The metrics that are kept: the rest of the name, what it is kept as, and what makes milliseconds of it."""

LABELS: Final = frozenset({"group_id", "group_member_id"})
MAX_LABEL_CHARS: Final = 1_000
"""A label that is longer is not kept: it could be no more than compared, and there may be thousands."""

MAX_PARTS: Final = 32_768
"""Resources, scopes, metrics, labels and numbers of one push that are looked at: some 4,000 metrics as Java sends
them, each in a resource of its own. A mebibyte may have 500,000, a second's work; what is beyond is not read."""

MAX_MS: Final = 1 << 53
"""A time beyond this is none: such numbers are exact in no program that reads the history."""


class NotMetrics(ValueError):
    """Raised for bytes that are not OpenTelemetry's MetricsData."""


@dataclass(slots=True)
class Said:
    """What one push says of the client; each figure by its name in KEPT."""

    labels: dict[str, str] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)


def check_library() -> None:
    """Raise ImportError if the library is missing that decodes pushes."""
    _metrics_data()


def _metrics_data() -> Any:
    # Only here: it is an extra, and takes longer to import than all else.
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    return MetricsData()


def decode_push(compression_type: int, metrics: bytes, max_bytes: int) -> Said:
    """Return what the metrics of a push say.

    Raises CorruptBatch if they do not inflate, or to more than `max_bytes`; NotMetrics.
    """
    from google.protobuf.message import DecodeError

    inflated = decompress(Codec(compression_type), metrics, max_bytes)
    data = _metrics_data()
    try:
        data.ParseFromString(inflated)
    except DecodeError as error:
        raise NotMetrics(str(error)) from None
    return _Reader().read(data)


class _Reader:
    """Reads one push, up to MAX_PARTS of it."""

    def __init__(self) -> None:
        self._said = Said()
        self._left = MAX_PARTS

    def read(self, data: Any) -> Said:
        for resource in self._some(data.resource_metrics):
            self._read_labels(resource.resource.attributes)
            for scope in self._some(resource.scope_metrics):
                for metric in self._some(scope.metrics):
                    self._read_metric(metric)
        return self._said

    def _some(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The parts that may still be looked at."""
        for part in parts:
            if not self._left:
                return
            self._left -= 1
            yield part

    def _read_labels(self, attributes: Iterable[Any]) -> None:
        for attribute in self._some(attributes):
            if attribute.key in LABELS and len(text := attribute.value.string_value) <= MAX_LABEL_CHARS:
                self._said.labels[attribute.key] = text

    def _read_metric(self, metric: Any) -> None:
        name: str = metric.name
        if not name.startswith(PREFIX):
            return
        kept = KEPT.get(name[len(PREFIX) :])
        if kept is None:
            return
        points = metric.gauge.data_points or metric.sum.data_points
        numbers = [number for point in self._some(points) for number in _numbers(point)]
        if numbers:
            self._said.figures[kept[0]] = round(max(numbers) * kept[1])
            for point in self._some(points):
                self._read_labels(point.attributes)


def _numbers(point: Any) -> Iterator[float]:
    """The number of a data point, if it is one: clients also send -1 and NaN, for what there is not."""
    number = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
    if math.isfinite(number) and 0 <= number <= MAX_MS / 1000:
        yield number
