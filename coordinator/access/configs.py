"""The check of DescribeConfigs; those of changes are the handler's to ask for, behind its checks of their form."""

from __future__ import annotations

from typing import Final

from coordinator.access.asker import Asker
from coordinator.access.refusals import REFUSAL, words_of
from coordinator.access.verdict import Verdict, passes, refused
from coordinator.security.acls import CLUSTER_NAME, Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent "
    "to an incompatible broker. See the broker logs for more details."
)
"""Kafka's text of INVALID_REQUEST."""

PROTECTED_BY: Final = {
    int(ConfigResourceType.TOPIC): ResourceType.TOPIC,
    int(ConfigResourceType.GROUP): ResourceType.GROUP,
    int(ConfigResourceType.BROKER): ResourceType.CLUSTER,
    int(ConfigResourceType.BROKER_LOGGER): ResourceType.CLUSTER,
    int(ConfigResourceType.CLIENT_METRICS): ResourceType.CLUSTER,
}
"""The type of resource whose rights protect the settings of each kind; other kinds have none."""


def check_describe_configs(request: DescribeConfigsRequest, asker: Asker) -> Verdict:
    """DescribeConfigs: DESCRIBE_CONFIGS of each topic, group, or the cluster; those refused come last.

    A kind of resource that does not exist is INVALID_REQUEST for all.
    """
    if any(each.resource_type not in PROTECTED_BY for each in request.resources):
        rows = [_refused(each, ErrorCode.INVALID_REQUEST, MALFORMED) for each in request.resources]
        return refused(DescribeConfigsResponse(results=rows))
    allowed, rows = [], []
    for each in request.resources:
        if _may_describe(each, asker):  # Asked once: every no is logged and counted as a denial (A21).
            allowed.append(each)
        else:
            error = REFUSAL[PROTECTED_BY[each.resource_type]]
            rows.append(_refused(each, error, words_of(error)))
    if not rows:
        return passes(request)
    described = DescribeConfigsRequest(
        resources=allowed,
        include_synonyms=request.include_synonyms,
        include_documentation=request.include_documentation,
    )
    return Verdict(
        described, complete=lambda response: DescribeConfigsResponse(results=[*response.results, *rows])
    )


def _may_describe(asked: DescribeConfigsResource, asker: Asker) -> bool:
    resource_type = PROTECTED_BY[asked.resource_type]
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else asked.resource_name
    return asker.may(Operation.DESCRIBE_CONFIGS, resource_type, name)


def _refused(asked: DescribeConfigsResource, error: ErrorCode, words: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=words,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
