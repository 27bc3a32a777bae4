"""The settings of what operators see; a part of `Settings`, whose page lists them behind Kafka's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from coordinator.settings.http_listeners import HTTP_DEFAULT, HttpListeners
from coordinator.settings.types import Choice, Count, FreeText, Whole, Words

GROUPS_MAX: Final = 100_000
"""The most groups with series of their own: some 20 series and 3 KB of text each."""

METRIC_PARTITIONS_MAX: Final = 1_000_000
"""The most partitions with series of their own: up to some 10 lines and 1 KB of text each."""

COMPATIBLE: Final = ("kafka_exporter", "kminion")
"""Exporters whose names /metrics can have beside its own."""

PARTITIONS: Final = ("off", "lagging", "all")


@dataclass(frozen=True, slots=True)
class Expression(FreeText):
    """A regular expression of RE2, which takes no longer for a group id that somebody made up; blank is None."""

    optional: bool = True

    @property
    def allowed(self) -> str:
        return "a regular expression (RE2), or empty"

    def parse(self, value: object) -> str | None:
        text = FreeText.parse(self, value)
        if text is not None:
            import re2  # Only here: it takes 20 ms, and few set an expression.

            try:
                re2.compile(text)
            except re2.error:
                raise ValueError(self.allowed) from None
        return text


class OperatorSettings(BaseModel):
    """The fields of `Settings` about HTTP, metrics, the log of the daemon and the loop."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    muster_http_listeners: HttpListeners = Field(
        (HTTP_DEFAULT,),
        description="Where HTTP is served, for health, metrics and the read-only API; empty: nowhere.",
    )
    muster_http_token: Annotated[str | None, FreeText(optional=True)] = Field(
        None,
        repr=False,
        description="What requests have to show as their bearer token; none: nothing, wherever listeners are.",
    )
    muster_http_token_file: Annotated[str | None, FreeText(optional=True)] = Field(
        None, description="The file that has this token, in place of it."
    )
    muster_http_ssl_keystore_type: Annotated[str, Choice(("JKS", "PKCS12", "PEM"), is_exact=True)] = Field(
        "PEM", description="The kind of key store of https listeners."
    )
    muster_http_ssl_keystore_location: Annotated[str | None, FreeText(optional=True)] = Field(
        None, description="The file with the key and the certificates of https listeners."
    )
    muster_http_ssl_keystore_password: Annotated[str | None, FreeText(optional=True)] = Field(
        None, repr=False, description="Its password; not for PEM."
    )
    muster_http_ssl_key_password: Annotated[str | None, FreeText(optional=True)] = Field(
        None, repr=False, description="The key's own password; else that of the store."
    )

    muster_log_level: Annotated[str, Choice(("debug", "info", "warning", "error"))] = Field(
        "info", description="The least serious lines that are logged."
    )
    muster_turn_log_ms: Count = Field(
        100, description="A turn of the event loop that takes so long, of CPU or by the clock, is logged."
    )
    muster_metrics_groups_max: Annotated[int, Whole(0, GROUPS_MAX)] = Field(
        1000, description="Groups with series of their own; the others are summed as __other__."
    )
    muster_metrics_groups_include: Annotated[str | None, Expression()] = Field(
        None, description="Only groups whose whole id matches have series of their own."
    )
    muster_metrics_groups_exclude: Annotated[str | None, Expression()] = Field(
        None, description="Groups whose whole id matches have none, whatever the former says."
    )
    muster_metrics_partitions: Annotated[str, Choice(PARTITIONS)] = Field(
        "off", description="Partitions with series of their own, of those groups; lagging: those with a lag."
    )
    muster_metrics_partitions_max: Annotated[int, Whole(0, METRIC_PARTITIONS_MAX)] = Field(
        10_000,
        description="Partitions with series of their own, under whatever names; the others are counted.",
    )
    muster_metrics_compatible: Annotated[tuple[str, ...], Words(COMPATIBLE)] = Field(
        (), description="Exporters under whose names the figures are shown as well."
    )
