"""The settings of what operators see; a part of `Settings`, whose page lists them behind Kafka's."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field

from coordinator.settings.types import Whole

GROUPS_MAX: Final = 100_000
"""The most groups with series of their own: some 20 series and 3 KB of text each."""

COMPATIBLE: Final = ("kafka_exporter", "kminion")
"""Exporters whose names /metrics can have beside its own."""


class OperatorSettings(BaseModel):
    """The fields of `Settings` about metrics."""

    muster_metrics_groups_max: Annotated[int, Whole(0, GROUPS_MAX)] = Field(
        1000, description="Groups with series of their own; the others are summed as __other__."
    )
