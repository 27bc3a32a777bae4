"""DescribeAcls (key 29), CreateAcls (key 30), DeleteAcls (key 31): who may do what (KIP-140).

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: patterns of names (KIP-290) |
| 2 | flexible |
| 3 | users as resources (KIP-373) |
"""

from dataclasses import field
from typing import Final

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int8, Int16, Int32

LITERAL: Final = 3  # The kind of pattern that stands for itself.


@request(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """A filter of the ACLs to describe; a null field matches all."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    """What one principal may or may not do."""

    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    """One resource and its ACLs."""

    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = LITERAL
    acls: list[AclDescription] = field(default_factory=list)


@response(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """The resources that have matching ACLs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)


@struct
class AclCreation:
    """One ACL to add."""

    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@request(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """ACLs to add."""

    creations: list[AclCreation]


@struct
class AclCreationResult:
    """The result for one ACL."""

    error_code: Int16 = 0
    error_message: str | None = ""


@response(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    """One entry per ACL of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)


@struct
class DeleteAclsFilter:
    """A filter of ACLs to delete; a null field matches all."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@request(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Filters of ACLs to delete."""

    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    """One ACL that was deleted, or why it was not."""

    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    """The ACLs that one filter matched."""

    error_code: Int16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@response(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """One entry per filter of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
