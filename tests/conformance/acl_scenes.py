"""ACLs as scenarios give them: whose, on what, and how one waits until they are in force.

Kafka answers before a change has reached its broker, but changes reach it in their order. So the last of those
that are made together is one that the asker can see the effect of.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.conformance.run import Run
from tests.conformance.topic_scenes import eventually, quietly

ANY: Final = 1
TOPIC, GROUP, CLUSTER, USER = 2, 3, 4, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 5, 6, 7, 8, 10
CREATE_TOKENS: Final = 13
DENY, ALLOW = 2, 3
VERSION: Final = 3
IN_FORCE_S: Final = 20.0


def acl(name: str, **changes: Any) -> AclCreation:
    """ALLOW READ of the topic for alice from anywhere, with `changes`."""
    given: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**{**given, "resource_name": name, **changes})


def filter_fields(**changes: Any) -> dict[str, Any]:
    """A filter that matches all, with `changes`."""
    names = ("resource_name_filter", "principal_filter", "host_filter")
    codes = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    return {**dict.fromkeys(names), **dict.fromkeys(codes, ANY), **changes}


def deletion(**changes: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(**filter_fields(**changes))


async def shown(run: Run, count: int, **changes: Any) -> Any:
    """The description of what a filter matches, once that are so many."""
    request = DescribeAclsRequest(**filter_fields(**changes))
    return await eventually(
        run, request, VERSION, lambda reply: sum(len(each.acls) for each in reply.resources) == count
    )


async def give(run: Run, *acls: AclCreation) -> None:
    """Make ACLs, all of which are good."""
    answer = await quietly(run, CreateAclsRequest(creations=list(acls)), VERSION)
    assert not any(result.error_code for result in answer.results), answer


async def take(run: Run, names: Iterable[str]) -> None:
    """Remove all ACLs of resources of these names."""
    filters = [deletion(resource_name_filter=name) for name in names]
    answer = await quietly(run, DeleteAclsRequest(filters=filters), VERSION)
    assert not any(result.error_code for result in answer.filter_results), answer


async def take_of(run: Run, user: str) -> None:
    """Remove all ACLs of the user."""
    filters = [deletion(principal_filter=f"User:{user}")]
    answer = await quietly(run, DeleteAclsRequest(filters=filters), VERSION)
    assert not any(result.error_code for result in answer.filter_results), answer


async def until(run: Run, actor: str, request: Any, version: int, holds: Callable[[Any], bool]) -> Any:
    """The first answer to `actor` for which `holds` is true; the transcript has none of them."""
    deadline = time.monotonic() + IN_FORCE_S
    while True:
        reply = await (await run.free_connection(actor)).send(request, version)
        if holds(reply):
            return reply
        if time.monotonic() > deadline:
            raise TimeoutError(f"{run.name}: not so within {IN_FORCE_S:.0f} s: {reply}")
        await asyncio.sleep(0.05)
