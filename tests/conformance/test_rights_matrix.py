"""The table of rights is asked whole: no API in no version that is served is left out of it."""

from __future__ import annotations

from typing import Final

from coordinator.access.table import CHECKS
from protocol.codec.codec import spec
from protocol.messages import REQUESTS
from protocol.messages.versions import SUPPORTED
from tests.conformance.access_requests import Named
from tests.conformance.scenarios.access import KINDS, OPERATIONS, questions

ASKED_ELSEWHERE: Final = {17, 18, 36, 39, 40, 41, 71, 72}
"""Logins (security S10), versions (`served`), tokens (security A20), telemetry: nobody needs a right to them."""
NAMED: Final = Named(
    topics=("one", "two"),
    topic_ids=(b"\1" * 16, b"\2" * 16),
    absent="absent",
    absent_id=b"\7" * 16,
    groups=("g1", "g2"),
    transactional_ids=("t1", "t2"),
)


def test_every_api_is_asked_in_every_version() -> None:
    asked = {(spec(type(request)).api_key, version) for _, request, version in questions(NAMED)}
    served = {
        (key, version)
        for key, (_, last) in SUPPORTED.items()  # Produce is reported from 0 on, and there from 3 on.
        for version in range(spec(REQUESTS[key]).min_version, last + 1)
        if key not in ASKED_ELSEWHERE
    }
    assert asked >= served
    assert {key for key, _ in asked} == CHECKS.keys() - ASKED_ELSEWHERE


def test_each_right_of_each_type_is_given_alone() -> None:
    assert [operation.name for operation in OPERATIONS] == [
        *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
        *("CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
    ]
    assert KINDS.keys() == {"topic", "group", "cluster", "transaction", "user"}
