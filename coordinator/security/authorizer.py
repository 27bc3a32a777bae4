"""Kafka's StandardAuthorizer: who may do what, by ACLs (A1 to A9).

A decision looks at memory alone. What was decided is kept until an ACL changes, which moves `version`. It knows no
requests, and not where ACLs are stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

import structlog

from coordinator.security.acl_table import WILDCARD_PRINCIPAL, AclTable, ByPrincipal
from coordinator.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from coordinator.security.denials import LOGGED_EVERY, Denials
from coordinator.security.java_hosts import java_host

MAX_KEPT: Final = 10_000
"""Decisions that are kept, of all connections; beyond it the one kept longest goes. 3 MB as a rule, 10 at most."""
MAX_KEPT_LISTED: Final = 5_000
"""Decisions beside which one that only filters a list is not kept: none of the others goes for it."""
MAX_KEPT_CHARS: Final = 512
"""Characters of the principal and the name of a decision that is kept: clients may ask for groups of 32,767."""
ANY_RESOURCE: Final = "hardcode"
"""The name that stands for any resource in the question for some of a type (A6); it is Kafka's."""

_Question: TypeAlias = tuple[str, str, Operation, ResourceType, str | None]

_DESCRIBING: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, *_DESCRIBING, Operation.ALL}),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
    ),
}
"""By operation, those of which an ALLOW allows it; a DENY implies nothing (A4)."""
_ALLOWING: Final = {
    operation: _IMPLIED_BY.get(operation, frozenset({operation, Operation.ALL})) for operation in Operation
}
_ALLOWING_BITS: Final = {
    operation: sum(1 << each for each in allowing) for operation, allowing in _ALLOWING.items()
}
_ALL_BIT: Final = 1 << Operation.ALL

log = structlog.get_logger("muster.authorizer")


class StandardAuthorizer:
    """Decides by the ACLs that it was given. All methods run on the event-loop thread."""

    def __init__(self, super_users: Collection[str] = (), *, allow_everyone: bool = False) -> None:
        """`super_users` may do everything; `allow_everyone`: where no ACL concerns a resource, all may (A5)."""
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._table = AclTable()
        self._kept: OrderedDict[_Question, bool] = OrderedDict()  # A dict is slow to drop its oldest.
        self._failures = 0
        self.version = 0
        """Moves with every change; each prepared heartbeat looks at it, so it is no property."""
        self.denials = Denials()

    # The ACLs.

    def change(self, added: Collection[Acl] = (), removed: Collection[Acl] = ()) -> None:
        """Add ACLs that are not there and remove some that are; decisions go by that from now on (A9)."""
        for acl in removed:
            self._table.remove(acl)
        for acl in added:
            self._table.add(acl)
        self._kept.clear()
        self.version += 1

    def all_acls(self) -> list[Acl]:
        """Return all ACLs, in the order in which they were added."""
        return list(self._table)

    @property
    def acl_count(self) -> int:
        """Number of ACLs."""
        return len(self._table)

    # The decisions.

    def may(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether `principal` at `host` may do it to the resource; a denial is counted (A21)."""
        if self._permits((principal, host, operation, resource_type, name), self._decide):
            return True
        self.denials.add(principal, host, operation, resource_type, name)
        return False

    def permits(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """As `may`, where a no is nothing to count: lists that are filtered. A long one is not kept."""
        question = (principal, host, operation, resource_type, name)
        return self._permits(question, self._decide, MAX_KEPT_LISTED)

    def permitted(
        self,
        principal: str,
        host: str,
        operations: Sequence[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> Sequence[Operation]:
        """Return those of `operations` that it `permits`, by one look at the ACLs; nothing of it is kept."""
        if principal in self._super_users:
            return operations
        try:
            return self._decide_each(principal, host, operations, resource_type, name)
        except Exception:
            self._on_failure()
            return ()

    def may_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of that type to which it may do `operation`; a denial is counted (A6)."""
        if self._permits((principal, host, operation, resource_type, None), self._decide_some):
            return True
        self.denials.add(principal, host, operation, resource_type, None)
        return False

    def _permits(
        self, question: _Question, decide: Callable[[_Question], bool], unless_kept: int | None = None
    ) -> bool:
        """Return what is known of a super user, or was kept, or else what `decide` says, as `_answer` keeps it."""
        if question[0] in self._super_users:
            return True
        kept = self._kept.get(question)
        return self._answer(question, decide, unless_kept) if kept is None else kept

    def _answer(
        self, question: _Question, decide: Callable[[_Question], bool], unless_kept: int | None = None
    ) -> bool:
        """Decide, and keep that, unless so many are. A bug of ours is a denial, which is not kept (A27)."""
        try:
            decided = decide(question)
        except Exception:
            self._on_failure()
            return False
        is_kept = unless_kept is None or len(self._kept) < unless_kept
        if is_kept and len(question[0]) + len(question[4] or "") <= MAX_KEPT_CHARS:
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
            self._kept[question] = decided
        return decided

    def _on_failure(self) -> None:
        """Count a decision that failed, behind an exception that is being handled."""
        self._failures += 1
        if self._failures % LOGGED_EVERY == 1:
            log.exception("a decision failed, denied", failed_so_far=self._failures)

    def _decide(self, question: _Question) -> bool:
        principal, host, operation, resource_type, name = question
        assert name is not None
        host, allowing = java_host(host), _ALLOWING[operation]
        is_allowed = is_concerned = False
        for pattern in self._table.concerning(resource_type, name):
            is_concerned = True
            for acl in _of_client(pattern, principal, host):
                if acl.permission == Permission.ALLOW:
                    is_allowed = is_allowed or acl.operation in allowing
                elif acl.operation in (operation, Operation.ALL):
                    return False
        return is_allowed if is_concerned else self._allow_everyone

    def _decide_each(
        self,
        principal: str,
        host: str,
        operations: Sequence[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> Sequence[Operation]:
        host = java_host(host)
        allowed = denied = 0  # A bit for each operation that an ACL names, by its code.
        is_concerned = False
        for pattern in self._table.concerning(resource_type, name):
            is_concerned = True
            for acl in _of_client(pattern, principal, host):
                if acl.permission == Permission.ALLOW:
                    allowed |= 1 << acl.operation
                else:
                    denied |= 1 << acl.operation
        if not is_concerned:
            return operations if self._allow_everyone else ()
        return [
            operation
            for operation in operations
            if allowed & _ALLOWING_BITS[operation] and not denied & (1 << operation | _ALL_BIT)
        ]

    def _decide_some(self, question: _Question) -> bool:
        """A pattern that is allowed counts unless a DENY covers it whole; no operation implies another (A6)."""
        principal, host, operation, resource_type, _ = question
        if self._decide((principal, host, operation, resource_type, ANY_RESOURCE)):
            return True
        host = java_host(host)
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for key in {principal, WILDCARD_PRINCIPAL}:
            for acl in self._table.of_principal(resource_type, key):
                if acl.host in (host, WILDCARD) and acl.operation in (operation, Operation.ALL):
                    side = allowed if acl.permission == Permission.ALLOW else denied
                    side.add((acl.pattern_type, acl.resource_name))
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if (PatternType.LITERAL, WILDCARD) in allowed:
            return True
        prefixes = {name for kind, name in denied if kind == PatternType.PREFIXED}
        lengths = {len(prefix) for prefix in prefixes}
        return any(
            not (kind == PatternType.LITERAL and (kind, name) in denied)
            and not any(name[:length] in prefixes for length in lengths)
            for kind, name in allowed
        )


def _of_client(pattern: ByPrincipal, principal: str, host: str) -> Iterator[Acl]:
    """Yield the ACLs of a pattern whose principal and host are the client's, or stand for all."""
    for key in (principal, WILDCARD_PRINCIPAL):
        for acl in pattern.get(key, ()):
            if acl.host in (host, WILDCARD):
                yield acl
        if principal == WILDCARD_PRINCIPAL:
            return
