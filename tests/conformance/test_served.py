"""What is not served is named once and for all: a name that leaves a list cannot come back to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.messages.versions import SUPPORTED
from tests.conformance.secured import SECURED
from tests.conformance.served import (
    FEATURES_LATER,
    FEATURES_OF_QUORUMS,
    LATER,
    MISSING_FEATURES,
    ask_served,
    differences,
    listener,
)
from tests.conformance.targets import new_target
from tests.protocol.test_versions import REPORTED


def table(**changed: tuple[int, int] | None) -> ApiVersionsResponse:
    """What Kafka reports, without what is named as missing, and with some rows `changed`."""
    rows = {str(key): value for key, value in REPORTED.items() if key not in LATER} | changed
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=int(key), min_version=value[0], max_version=value[1])
            for key, value in sorted(rows.items(), key=lambda row: int(row[0]))
            if value is not None
        ],
        finalized_features_epoch=1,
    )


def whole() -> ApiVersionsResponse:
    """All that Kafka reports."""
    return table(**{str(key): REPORTED[key] for key in LATER})


def test_the_keys_that_come_later_are_these_and_no_others() -> None:
    """A key that is served is taken out here and there; none may be added."""
    groups = {76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92}
    assert groups == LATER
    assert {"share.version", "streams.version"} == FEATURES_LATER
    assert {"eligible.leader.replicas.version", "kraft.version", "metadata.version"} == FEATURES_OF_QUORUMS


def test_each_key_of_a_node_is_served_or_named_and_none_is_both() -> None:
    assert REPORTED.keys() - SUPPORTED.keys() == LATER


def test_what_is_named_may_be_missing() -> None:
    assert list(differences(whole(), table())) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"0": None}, "API key 0: kafka (0, 13), muster None"),
        ({"11": (0, 8)}, "API key 11: kafka (0, 9), muster (0, 8)"),
        ({"11": (1, 9)}, "API key 11: kafka (0, 9), muster (1, 9)"),
        ({"93": (0, 0)}, "API key 93: kafka None, muster (0, 0)"),
        ({"76": (1, 1)}, "API key 76 is served: it must not be named as missing"),
    ],
)
def test_any_other_row_is_a_difference(changed: dict[str, tuple[int, int] | None], found: str) -> None:
    assert found in list(differences(whole(), table(**changed)))


def test_the_order_of_the_rows_counts() -> None:
    ours = table()
    ours.api_keys = list(reversed(ours.api_keys))
    assert any("another order" in each for each in differences(whole(), ours))


def test_features_are_compared_by_name_and_level() -> None:
    kafka, muster = whole(), table()
    kafka.supported_features = [SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2)]
    kafka.finalized_features = [
        FinalizedFeatureKey(name=name, min_version_level=2, max_version_level=2)
        for name in ("transaction.version", *MISSING_FEATURES)
    ]
    assert list(differences(kafka, muster)) == [
        "supported feature transaction.version: kafka (0, 2), muster None",
        "finalized feature transaction.version: kafka (2, 2), muster None",
    ]
    muster.supported_features, muster.finalized_features = kafka.supported_features, kafka.finalized_features
    assert all("must not be named as missing" in each for each in differences(kafka, muster))
    kafka.finalized_features_epoch = -1
    assert "epoch: kafka -1, muster 1" in list(differences(kafka, muster))


async def test_each_listener_serves_all_that_kafka_does_but_for_what_is_named(tmp_path: Path) -> None:
    """Before a login, through TLS or in clear: without clients' metrics, which are off by default in both."""
    telemetry = {71, 72}
    reported = {key: versions for key, versions in REPORTED.items() if key not in LATER | telemetry}
    target = new_target("muster", SECURED, tmp_path)
    with target.server:
        for name, bootstrap in (("", target.bootstrap), *target.other_bootstraps.items()):
            table = await ask_served(listener(bootstrap, name))
            served = {row.api_key: (row.min_version, row.max_version) for row in table.api_keys}
            assert served == reported, name
