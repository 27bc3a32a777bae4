"""The checks of the APIs of ACLs: DESCRIBE or ALTER of the cluster, behind what cannot be read (A10, A12)."""

from __future__ import annotations

from typing import Any, Final

from coordinator.access.asker import Asker
from coordinator.access.cluster import cluster, rows_refused
from coordinator.access.verdict import Check, Verdict
from coordinator.security.acls import Operation
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

UNKNOWN: Final = 0
UNREADABLE: Final = "a code of 0, which stands for nothing"

_describe: Final[Check] = cluster(Operation.DESCRIBE)
_create: Final[Check] = cluster(Operation.ALTER, rows_refused("results"))
_delete: Final[Check] = cluster(Operation.ALTER, rows_refused("filter_results"))


def check_describe_acls(request: DescribeAclsRequest, asker: Asker) -> Verdict:
    return Verdict(silence=UNREADABLE) if _is_unreadable(request) else _describe(request, asker)


def check_create_acls(request: CreateAclsRequest, asker: Asker) -> Verdict:
    if any(UNKNOWN in _codes_of_creation(each) for each in request.creations):
        return Verdict(silence=UNREADABLE)
    return _create(request, asker)


def check_delete_acls(request: DeleteAclsRequest, asker: Asker) -> Verdict:
    if any(map(_is_unreadable, request.filters)):
        return Verdict(silence=UNREADABLE)
    return _delete(request, asker)


def _is_unreadable(asked: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    codes = (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
    return UNKNOWN in codes


def _codes_of_creation(asked: AclCreation) -> tuple[Any, ...]:
    return asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type
