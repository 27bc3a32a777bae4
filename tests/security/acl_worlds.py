"""Small worlds of ACLs and questions, in which names are prefixes of each other; and an oracle.

The oracle is Kafka's rule as it is told (A3 to A6), by a look at every ACL; what is compiled has to agree with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hypothesis import strategies as st

from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType

NAMES: Final = ("*", "o", "or", "orders", "orders-1", "other", "hardcode", "hard")
PRINCIPALS: Final = ("User:alice", "User:bob", "User:*", "User:ALICE")
CLIENT_HOSTS: Final = ("127.0.0.1", "10.0.0.7", "::1", "::ffff:10.0.0.7")
ACL_HOSTS: Final = ("*", "127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1", "::1")
AS_JAVA_HAS_THEM: Final = {"::1": "0:0:0:0:0:0:0:1", "::ffff:10.0.0.7": "10.0.0.7"}
TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS: Final = tuple(operation for operation in Operation if operation >= Operation.READ)

acls = st.builds(
    Acl,
    resource_type=st.sampled_from(TYPES),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(ACL_HOSTS),
    operation=st.sampled_from((*OPERATIONS[:9], Operation.ALL)),
    permission=st.sampled_from((Permission.DENY, Permission.ALLOW, Permission.ALLOW)),
)

questions = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(CLIENT_HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    st.sampled_from((*NAMES, "orders-12", "absent")),
)


def concerns(acl: Acl, resource_type: int, name: str) -> bool:
    """A3: the same literal, the literal `*`, or a prefix."""
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def is_for(acl: Acl, principal: str, host: str) -> bool:
    """A3, A8: the principal or all, the host as Java has it or all."""
    host = AS_JAVA_HAS_THEM.get(host, host)
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def allows(acl: Acl, operation: Operation) -> bool:
    """A4: ALL, the operation itself, or one that implies it."""
    implying = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    return acl.operation in {Operation.ALL, operation, *implying}


def may(
    world: Collection[Acl], question: tuple[str, str, Operation, ResourceType, str], everyone: bool
) -> bool:
    """A5, by a look at every ACL."""
    principal, host, operation, resource_type, name = question
    concerned = [acl for acl in world if concerns(acl, resource_type, name)]
    own = [acl for acl in concerned if is_for(acl, principal, host)]
    if any(acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in own):
        return False
    if any(acl.permission == Permission.ALLOW and allows(acl, operation) for acl in own):
        return True
    return everyone and not concerned


def may_some(
    world: Collection[Acl], question: tuple[str, str, Operation, ResourceType, str], everyone: bool
) -> bool:
    """A6, by a look at every pair of an ALLOW and a DENY."""
    principal, host, operation, resource_type, _ = question
    if may(world, (principal, host, operation, resource_type, "hardcode"), everyone):
        return True
    own = [
        acl
        for acl in world
        if acl.resource_type == resource_type
        and is_for(acl, principal, host)
        and acl.operation in (operation, Operation.ALL)
    ]
    denied = [acl for acl in own if acl.permission == Permission.DENY]

    def covers(deny: Acl, allow: Acl) -> bool:
        if deny.pattern_type == PatternType.LITERAL:
            same = allow.pattern_type == PatternType.LITERAL and deny.resource_name == allow.resource_name
            return same or deny.resource_name == "*"
        is_wildcard = allow.pattern_type == PatternType.LITERAL and allow.resource_name == "*"
        return allow.resource_name.startswith(deny.resource_name) and not is_wildcard

    return any(
        not any(covers(deny, allow) for deny in denied)
        for allow in own
        if allow.permission == Permission.ALLOW
    )
