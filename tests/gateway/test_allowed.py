"""What passes the gateway cannot lead clients around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.gateway.allowed import ALLOWED, OF_GROUPS, PRODUCE, Way, is_allowed, way_of
from protocol.codec.codec import spec
from protocol.codec.schema import Array, Struct, fields_of
from protocol.messages import REQUESTS, RESPONSES

SHOW_ADDRESSES = {3, 10, 15, 55, 60, 69}
"""Metadata, FindCoordinator, DescribeQuorum, DescribeCluster; and who describes groups is shown their members'."""
OF_ACLS = {29, 31}
"""Their hosts are those from which somebody may do something."""


def fields(cls: type, version: int) -> Iterator[str]:
    """The names of all fields of a message in one version, those of its rows too."""
    for each in fields_of(cls):
        if version in each.present:
            yield each.name
            kind = each.type.element if isinstance(each.type, Array) else each.type
            if isinstance(kind, Struct):
                yield from fields(kind.cls, version)


def shows_addresses(api_key: int, version: int) -> bool:
    return any("host" in name or "endpoint" in name for name in fields(RESPONSES[api_key], version))


@pytest.mark.parametrize("api_key", sorted(ALLOWED.keys() - OF_ACLS))
def test_an_answer_that_passes_unread_has_no_address_in_any_version(api_key: int) -> None:
    lowest, highest = ALLOWED[api_key]
    versions = range(max(lowest, spec(REQUESTS[api_key]).min_version), highest + 1)
    with_addresses = [version for version in versions if shows_addresses(api_key, version)]
    if api_key not in SHOW_ADDRESSES:
        assert with_addresses == []
    else:
        assert with_addresses
        assert way_of(api_key) is Way.READ


def test_what_is_capped_would_show_addresses_one_version_later() -> None:
    """Else the cap would be of no use. KIP-951 came with Produce 10 and Fetch 16."""
    for api_key, highest in ((0, 9), (1, 15)):
        assert ALLOWED[api_key][1] == highest
        assert not shows_addresses(api_key, highest)
        assert shows_addresses(api_key, highest + 1)


def test_what_names_groups_is_read() -> None:
    for api_key in REQUESTS:
        names = set(fields(REQUESTS[api_key], spec(REQUESTS[api_key]).max_version))
        if names & {"group_id", "group_ids", "groups_names"} and api_key in ALLOWED:
            assert way_of(api_key) is Way.READ, REQUESTS[api_key].__name__
    assert all(way_of(api_key) is Way.READ for api_key in OF_GROUPS)


@pytest.mark.parametrize(
    ("api_key", "version", "passes"),
    [
        (PRODUCE, 9, True),
        (PRODUCE, 10, False),
        (17, 1, False),  # A login.
        (80, 0, False),  # A voter more.
        (4, 0, False),  # Between brokers.
        (78, 1, False),  # ShareFetch.
        (999, 0, False),
        (18, 99, True),
    ],
)
def test_only_what_is_known_passes(api_key: int, version: int, passes: bool) -> None:
    assert is_allowed(api_key, version) is passes
