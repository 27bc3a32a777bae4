"""Which ACLs a filter matches (A15), beside Kafka's rule as it is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.acl_filter import AclFilter
from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.security.acl_worlds import ACL_HOSTS, NAMES, PRINCIPALS, acls, concerns

ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
ORDERS = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, 3)

filters = st.builds(
    AclFilter,
    resource_type=st.sampled_from((1, 2, 3, 99)),
    resource_name=st.sampled_from((None, *NAMES, "orders-12")),
    pattern_type=st.sampled_from((1, 2, 3, 4, 77)),
    principal=st.sampled_from((None, *PRINCIPALS)),
    host=st.sampled_from((None, *ACL_HOSTS)),
    operation=st.sampled_from((1, 2, 3, 8, 44)),
    permission=st.sampled_from((1, 2, 3, 9)),
)


def matches(wanted: AclFilter, acl: Acl) -> bool:
    """The rule, field by field."""
    name, kind = wanted.resource_name, wanted.pattern_type
    if kind == PatternType.MATCH:
        fits = name is None or concerns(acl, acl.resource_type, name)
    else:
        fits = kind in (PatternType.ANY, acl.pattern_type) and name in (None, acl.resource_name)
    others = (
        (wanted.resource_type, acl.resource_type, 1),
        (wanted.principal, acl.principal, None),
        (wanted.host, acl.host, None),
        (wanted.operation, acl.operation, 1),
        (wanted.permission, acl.permission, 1),
    )
    return fits and all(asked in (any_value, has) for asked, has, any_value in others)


@settings(max_examples=500, deadline=None)
@given(wanted=filters, acl=acls)
def test_a_filter_matches_by_the_rule(wanted: AclFilter, acl: Acl) -> None:
    assert wanted.matches(acl) == matches(wanted, acl)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (PatternType.ANY, "orders", {"orders", "orders+"}),
        (PatternType.MATCH, "orders", {"orders", "orders+", "ord+", "*"}),
        (PatternType.LITERAL, "orders", {"orders"}),
        (PatternType.PREFIXED, "orders", {"orders+"}),
        (PatternType.LITERAL, "*", {"*"}),
        (PatternType.MATCH, "*", {"*"}),
        (PatternType.PREFIXED, None, {"orders+", "ord+"}),
        (PatternType.MATCH, None, {"orders", "orders+", "ord+", "*"}),
        (PatternType.UNKNOWN, None, set()),
    ],
)
def test_names_match_by_the_kind_of_pattern(kind: PatternType, name: str | None, expected: set[str]) -> None:
    """A `+` marks what is prefixed."""
    world = {
        mark: ORDERS._replace(resource_name=mark.removesuffix("+"), pattern_type=3 + mark.endswith("+"))
        for mark in ("orders", "orders+", "ord+", "*")
    }
    wanted = ALL._replace(pattern_type=kind, resource_name=name)
    assert {mark for mark, acl in world.items() if wanted.matches(acl)} == expected
