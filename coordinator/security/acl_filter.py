"""Which ACLs a request asks for (A15)."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType


class AclFilter(NamedTuple):
    """A filter of ACLs: None for a name, a principal or a host matches all, as does ANY elsewhere.

    Codes that Kafka does not know match none.
    """

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is one that is asked for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        """ANY stands for the name itself in either kind of pattern, MATCH for all that concerns the name."""
        kind, name = self.pattern_type, self.resource_name
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if kind != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
