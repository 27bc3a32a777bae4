"""UpdateFeatures (key 57): raise or lower the finalized levels of features (KIP-584), in Kafka's words.

If one update is refused, all are. `feature_levels` explains the levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.feature_levels import SUPPORTED_FEATURES, FeatureLevels
from coordinator.topics.refusal import Refused
from coordinator.topics.registry import FEATURES, TopicRegistry
from protocol.errors import ErrorCode
from protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

KINDS: Final = frozenset({UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE})
KINDS_SINCE: Final = 1  # In version 0, a flag allowed a lower level.


def update_features(broker: Broker, request: UpdateFeaturesRequest, pending: ClientRequest) -> None:
    """Change the levels, or only check the change; answer when the levels are on the disk.

    Errors of the whole request: INVALID_UPDATE_VERSION, KAFKA_STORAGE_ERROR.
    """
    registry = broker.registry
    if registry.is_changing(FEATURES):
        registry.when_changed(FEATURES, lambda _: update_features(broker, request, pending))
        return
    try:
        levels = _new_levels(registry, request, pending.api_version)
    except Refused as refused:
        pending.reply(UpdateFeaturesResponse(error_code=refused.error, error_message=refused.message))
        return

    def answer(error: ErrorCode) -> None:
        pending.reply(_answer(request, error))

    before = registry.features
    if request.validate_only or levels == before.levels:
        answer(ErrorCode.NONE)
    else:
        registry.set_features(FeatureLevels(levels, before.epoch + 1), answer)


def _answer(request: UpdateFeaturesRequest, error: ErrorCode) -> UpdateFeaturesResponse:
    if error:
        return UpdateFeaturesResponse(error_code=error, error_message="The levels could not be written.")
    none = ErrorCode.NONE.name  # Kafka's text for success.
    done = [
        UpdatableFeatureResult(feature=each.feature, error_message=none) for each in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=done)


def _new_levels(registry: TopicRegistry, request: UpdateFeaturesRequest, api_version: int) -> dict[str, int]:
    """Return all levels after the update; of two updates of one feature the last counts. Raises Refused."""
    before = registry.features.levels
    levels = dict(before)
    for update in request.feature_updates:
        kind = update.upgrade_type
        if api_version < KINDS_SINCE:
            kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
        if reason := _problem(update, kind, before, registry.settings.node_id):
            raise Refused(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
            )
        levels[update.feature] = update.max_version_level
    return levels


def _problem(update: FeatureUpdateKey, kind: int, before: Mapping[str, int], node_id: int) -> str | None:
    """Return the reason why the update is refused; None if it is not refused."""
    level, supported = update.max_version_level, SUPPORTED_FEATURES.get(update.feature)
    if kind not in KINDS:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None and level == 0:
        return f"Feature {update.feature} not found."
    if supported is None:
        return f"Local controller {node_id} does not support this feature."
    if level not in supported:
        return f"Local controller {node_id} only supports versions {supported[0]}-{supported[-1]}"
    return _direction_problem(level, before[update.feature], kind)


def _direction_problem(level: int, before: int, kind: int) -> str | None:
    if level < before and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > before and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
