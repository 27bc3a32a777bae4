"""UpdateFeatures (key 57): raise or lower the finalized level of features of the cluster (KIP-584).

Flexible from its first version.

| version | what is new |
|---|---|
| 1 | a kind of update instead of leave to lower; only checking (KIP-778) |
| 2 | no results per feature: one refused update refuses all (KIP-1022) |
"""

from dataclasses import field
from enum import IntEnum

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32


class UpgradeType(IntEnum):
    """Which change of a feature's level is asked for."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@struct
class FeatureUpdateKey:
    """One feature and its new level; with level 0 the feature is no longer finalized."""

    feature: str
    max_version_level: Int16
    allow_downgrade: bool = since(0, until=0, default=False)
    upgrade_type: Int8 = since(1, default=UpgradeType.UPGRADE.value)


@request(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """The levels to change."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = since(1, default=False)


@struct
class UpdatableFeatureResult:
    """The result for one feature."""

    feature: str
    error_code: Int16 = 0
    error_message: str | None = ""


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Whether the levels were changed, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = since(0, until=1, default_factory=list, ignorable=True)
