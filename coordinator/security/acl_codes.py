"""Requests about ACLs that cannot be read: a code of 0 for a type, pattern, operation or permission (A12)."""

from __future__ import annotations

from typing import Any, Final

from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

UNREADABLE: Final = "a code of 0, which stands for nothing"
_UNKNOWN: Final = 0


def is_unreadable(request: DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest) -> bool:
    """Whether the connection is closed for it, before rights are looked at, or whether there are any."""
    if isinstance(request, CreateAclsRequest):
        return any(_UNKNOWN in _codes_of_creation(each) for each in request.creations)
    filters = request.filters if isinstance(request, DeleteAclsRequest) else (request,)
    return any(_UNKNOWN in _codes_of_filter(each) for each in filters)


def _codes_of_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> tuple[Any, ...]:
    return asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type


def _codes_of_creation(asked: AclCreation) -> tuple[Any, ...]:
    return asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type
