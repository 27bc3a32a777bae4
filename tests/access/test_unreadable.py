"""Requests about ACLs that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.access.world import World, everything


@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_codes_of_nothing_are_closed_before_rights_are_looked_at(field: str) -> None:
    """A12: also for who has none, and would be refused."""
    fields: dict[str, Any] = {
        "resource_type_filter": 2,
        "resource_name_filter": None,
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 3,
        "permission_type": 3,
        field: 0,
    }
    made = AclCreation(
        resource_type=fields["resource_type_filter"],
        resource_name="t",
        resource_pattern_type=fields["pattern_type_filter"],
        principal="User:x",
        host="*",
        operation=fields["operation"],
        permission_type=fields["permission_type"],
    )
    for request in (
        DescribeAclsRequest(**fields),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**fields)]),
        CreateAclsRequest(creations=[made]),
    ):
        for rights in ([], everything()):
            pending = World(rights).asked(request, 3)
            assert pending.dropped_for is not None
            assert pending.answer is None
