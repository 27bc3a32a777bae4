"""DescribeAcls (key 29), CreateAcls (key 30), DeleteAcls (key 31) where there is an authorizer (A10 to A15).

Whether the client may ask at all is looked at before a handler sees the request. `unsecured` answers where there
is no authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from coordinator.data.broker import ClientRequest
from coordinator.security.acl_codes import UNREADABLE, is_unreadable
from coordinator.security.acl_filter import AclFilter
from coordinator.security.acl_registry import AclRegistry
from coordinator.security.acl_store import MAX_ACLS, MAX_CHARS, Created
from coordinator.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from coordinator.topics.refusal import Refused
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

ANY: Final = 1
DESCRIBED_ON_LOOP: Final = 500
"""ACLs and filters that are answered for within the loop's turn; of more that is done aside, at 3 us each."""
NO_ROOM: Final = f"There may be {MAX_ACLS} acls, with {MAX_CHARS} characters together."


class LargeAnswer(ClientRequest, Protocol):
    """A request that may be answered aside, as the server's `Pending` may."""

    def reply_aside(
        self, make: Callable[[], Any], run: Callable[[Callable[[], object], Callable[[Any], None]], None]
    ) -> None:
        """Answer with what `make` returns, which `run` has a thread do."""


class AclApis:
    """The handlers."""

    def __init__(self, registry: AclRegistry, readers: Workers) -> None:
        """`readers` make the answers that would hold up the loop."""
        self._registry = registry
        self._readers = readers

    def handlers(self) -> dict[int, Callable[[Any, Any], None]]:
        """Return the handlers by API key."""
        return {29: self.describe, 30: self.create, 31: self.delete}

    def describe(self, request: DescribeAclsRequest, pending: LargeAnswer) -> None:
        """DescribeAcls (key 29): those that match the filter; a code that is not known matches none."""
        if is_unreadable(request):
            pending.drop(UNREADABLE)
            return
        wanted = _described_filter(request)
        acls = self._registry.authorizer.all_acls()
        self._reply(pending, len(acls), lambda: _description(acls, wanted))

    def create(self, request: CreateAclsRequest, pending: ClientRequest) -> None:
        """CreateAcls (key 30): those that are there already are no error; good ones are made beside bad ones.

        Errors per entry: INVALID_REQUEST, POLICY_VIOLATION (more than there may be), KAFKA_STORAGE_ERROR;
        UNKNOWN_SERVER_ERROR for all, if one of them is only fit for a filter (A13).
        """
        if is_unreadable(request):
            pending.drop(UNREADABLE)
            return
        wanted = [_wanted(creation) for creation in request.creations]
        if any(_is_only_a_filter(acl) for acl in wanted):
            failed = AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None)
            pending.reply(CreateAclsResponse(results=[failed] * len(wanted)))
            return
        problems = [_problem(acl) for acl in wanted]
        good = [acl for acl, problem in zip(wanted, problems, strict=True) if problem is None]

        def on_created(created: Created | Refused) -> None:
            results = [
                _creation_result(acl, problem, created) for acl, problem in zip(wanted, problems, strict=True)
            ]
            pending.reply(CreateAclsResponse(results=results))

        self._registry.create(good, on_created)

    def delete(self, request: DeleteAclsRequest, pending: LargeAnswer) -> None:
        """DeleteAcls (key 31): what each filter matches; two may report the same ACL (A14).

        Errors per filter: INVALID_REQUEST; for all: INVALID_REQUEST (too many), KAFKA_STORAGE_ERROR.
        """
        if is_unreadable(request):
            pending.drop(UNREADABLE)
            return
        filters = [_deletion_filter(each) for each in request.filters]
        problems = [_filter_problem(each) for each in filters]
        good = [each for each, problem in zip(filters, problems, strict=True) if problem is None]

        def on_deleted(matches: list[list[Acl]] | Refused) -> None:
            if isinstance(matches, Refused):
                failed = _failed_filter(matches.error, matches.message)
                response = DeleteAclsResponse(filter_results=[failed] * len(filters))
                self._reply(pending, len(filters), lambda: response)
                return
            rows = len(problems) + sum(map(len, matches))
            self._reply(pending, rows, lambda: _deletion(problems, matches))

        self._registry.delete(good, on_deleted)

    def _reply(self, pending: LargeAnswer, rows: int, make: Callable[[], Any]) -> None:
        """Answer with what `make` returns; where that are many rows, it is made and encoded aside."""
        if rows <= DESCRIBED_ON_LOOP:
            pending.reply(make())
        else:
            pending.reply_aside(make, self._readers.submit)


# Describing.


def _described_filter(request: DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )


def _description(acls: Sequence[Acl], wanted: AclFilter) -> DescribeAclsResponse:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        if not wanted.matches(acl):
            continue
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        if (resource := resources.get(pattern)) is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


# Creating.


def _wanted(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _is_only_a_filter(acl: Acl) -> bool:
    """Whether it has a code that no ACL can have, but that Kafka knows."""
    is_any = ANY in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission)
    return is_any or acl.pattern_type == PatternType.MATCH


def _problem(acl: Acl) -> str | None:
    """Return what is wrong with an ACL that is to be made, or None. Operations and hosts are not looked at."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    for field, code, known in (
        ("resourceType", acl.resource_type, ResourceType),
        ("patternType", acl.pattern_type, PatternType),
        ("operation", acl.operation, Operation),
        ("permissionType", acl.permission, Permission),
    ):
        if not _is_known(code, known):
            return f"Invalid {field} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    return None


def _is_known(code: int, codes: type[ResourceType | PatternType | Operation | Permission]) -> bool:
    return 0 < code <= max(codes)


def _creation_result(acl: Acl, problem: str | None, created: Created | Refused) -> AclCreationResult:
    if problem is not None:
        return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
    if isinstance(created, Refused):
        return AclCreationResult(error_code=created.error, error_message=created.message)
    if acl in created.without_room:
        return AclCreationResult(error_code=ErrorCode.POLICY_VIOLATION, error_message=NO_ROOM)
    return AclCreationResult()


# Deleting.


def _deletion_filter(given: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def _filter_problem(given: AclFilter) -> str | None:
    if not _is_known(given.resource_type, ResourceType) or not _is_known(given.pattern_type, PatternType):
        return "Unknown patternFilter."
    if not _is_known(given.operation, Operation) or not _is_known(given.permission, Permission):
        return "Unknown entryFilter."
    return None


def _deletion(problems: Sequence[str | None], matches: Sequence[list[Acl]]) -> DeleteAclsResponse:
    """Return the answer: a filter without a problem has matched the next of `matches`."""
    found = iter(matches)
    results = [
        _filter_result(next(found)) if problem is None else _failed_filter(ErrorCode.INVALID_REQUEST, problem)
        for problem in problems
    ]
    return DeleteAclsResponse(filter_results=results)


def _failed_filter(error: ErrorCode, message: str | None) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error, error_message=message)


def _filter_result(matches: list[Acl]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in matches
        ],
    )
