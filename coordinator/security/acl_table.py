"""All ACLs there are, kept so that those which concern one resource are found without a look at the others.

For each type of resource: the literal ones by name, the wildcard among them, and the prefixed ones by prefix, of
which one look-up is made for each length that a prefix has. It decides nothing (A3).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from coordinator.security.acls import WILDCARD, Acl, PatternType

ByPrincipal: TypeAlias = Mapping[str, list[Acl]]
"""The ACLs of one pattern by their principal; never without one."""

_Pattern: TypeAlias = dict[str, list[Acl]]


class AclTable:
    """A set of ACLs, in the order in which they were added."""

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self._types: dict[int, _OfType] = {}

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def add(self, acl: Acl) -> None:
        """Add an ACL that is not there yet."""
        assert acl not in self._acls, f"{acl} is there already"
        self._acls[acl] = None
        self._types.setdefault(acl.resource_type, _OfType()).add(acl)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there. Raises KeyError for any other."""
        del self._acls[acl]
        self._types[acl.resource_type].remove(acl)

    def concerning(self, resource_type: int, name: str) -> Iterator[ByPrincipal]:
        """Yield the ACLs that concern the resource, whomever and whatever they are for."""
        of_type = self._types.get(resource_type)
        return iter(()) if of_type is None else of_type.concerning(name)

    def of_principal(self, resource_type: int, principal: str) -> Iterable[Acl]:
        """Return the ACLs of that principal about resources of that type."""
        of_type = self._types.get(resource_type)
        return () if of_type is None else of_type.by_principal.get(principal, ())


class _OfType:
    """The ACLs about resources of one type."""

    def __init__(self) -> None:
        self.by_principal: dict[str, dict[Acl, None]] = {}
        self._literal: dict[str, _Pattern] = {}
        self._prefixed: dict[str, _Pattern] = {}
        self._lengths: list[int] = []  # Of the prefixes, each once, in rising order.
        self._prefixes_of_length: Counter[int] = Counter()

    def add(self, acl: Acl) -> None:
        named = self._named(acl)
        if acl.resource_name not in named:
            named[acl.resource_name] = {}
            if named is self._prefixed:
                self._count(len(acl.resource_name))
        named[acl.resource_name].setdefault(acl.principal, []).append(acl)
        self.by_principal.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        named = self._named(acl)
        pattern = named[acl.resource_name]
        of_principal = pattern[acl.principal]
        of_principal.remove(acl)
        if not of_principal:
            del pattern[acl.principal]
        del self.by_principal[acl.principal][acl]
        if not self.by_principal[acl.principal]:
            del self.by_principal[acl.principal]
        if not pattern:
            del named[acl.resource_name]
            if named is self._prefixed:
                self._uncount(len(acl.resource_name))

    def _named(self, acl: Acl) -> dict[str, _Pattern]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal

    def _count(self, length: int) -> None:
        if not self._prefixes_of_length[length]:
            insort(self._lengths, length)
        self._prefixes_of_length[length] += 1

    def _uncount(self, length: int) -> None:
        self._prefixes_of_length[length] -= 1
        if not self._prefixes_of_length[length]:
            del self._prefixes_of_length[length]
            self._lengths.remove(length)

    def concerning(self, name: str) -> Iterator[ByPrincipal]:
        if (literal := self._literal.get(name)) is not None:
            yield literal
        if name != WILDCARD and (wildcard := self._literal.get(WILDCARD)) is not None:
            yield wildcard
        for length in self._lengths[: bisect_right(self._lengths, len(name))]:
            if (prefixed := self._prefixed.get(name[:length])) is not None:
                yield prefixed


WILDCARD_PRINCIPAL: Final = f"User:{WILDCARD}"
"""The principal in ACLs that are for all users."""
