"""Metrics as a consumer pushes them (KIP-714): OpenTelemetry's MetricsData, made here with its own classes."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource


def pushed(figures: Mapping[str, float | int], labels: Mapping[str, str] | None = None) -> bytes:
    """Gauges by their names, with labels of the client as Java's sends them."""
    attributes = [
        KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in (labels or {}).items()
    ]
    metrics = [Metric(name=name, gauge=Gauge(data_points=[_point(value)])) for name, value in figures.items()]
    scopes = [ScopeMetrics(metrics=[metric]) for metric in metrics]
    resource = ResourceMetrics(resource=Resource(attributes=attributes), scope_metrics=scopes)
    return MetricsData(resource_metrics=[resource]).SerializeToString()


def _point(value: float | int) -> NumberDataPoint:
    return NumberDataPoint(as_int=value) if isinstance(value, int) else NumberDataPoint(as_double=value)
