"""The file of the ACLs in the log directory: written whole, read by its owner alone, believed if it is sealed.

It fails closed (F13): a file that others can read or write, that is torn, or that has what is no ACL keeps the
daemon from starting. So does no file at all, once there was one: where all may do what no ACL forbids, a file that
was lost would open everything. Waits for the disk; one caller at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordinator.security.acl_filter import AclFilter
from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from storage.files import Files, StorageError
from storage.sealed_json import encode_sealed, read_sealed, require_private

FILE_NAME: Final = "acls.json"
MARK_NAME: Final = "acls-expected.json"
"""Beside the file of ACLs, from the first start with an authorizer on: says that it has to be there."""
FORMAT: Final = 1
MAX_ACLS: Final = 20_000
"""Number of ACLs: the file is written whole with each change, in half a second if it has so many."""
MAX_CHARS: Final = 8 << 20
"""Characters of all ACLs' names, principals and hosts together: each of the three may have 32,767."""
MAX_CHANGED: Final = 10_000
"""ACLs that one request may make or remove, as in Kafka (A14); one counts for each filter that matches."""
MAX_FILTERS: Final = 10_000
"""Filters of one request."""
MAX_COMPARED: Final = 1_000_000
"""Comparisons of filters with ACLs, 1 us each, for one request; one without an exact name is compared with all."""

_WHAT: Final = "file of ACLs"
_OF_FILTERS: Final = frozenset({0, 1})
"""UNKNOWN and ANY, of each of the four codes."""


class Created(NamedTuple):
    """What has become of ACLs that were to be there."""

    added: Collection[Acl]
    without_room: Collection[Acl]
    """Those that would have been too many."""


class AclStore:
    """The ACLs that are on the disk. A method that raises has changed nothing."""

    def __init__(self, directory: Path, files: Files) -> None:
        self.path = directory / FILE_NAME
        self._mark = directory / MARK_NAME
        self._files = files
        self._by_name: dict[
            str, dict[Acl, None]
        ] = {}  # By the name of their resource, which most filters have.
        self._count = self._chars = 0

    def open(self) -> list[Acl]:
        """Read and return what is stored. Raises StorageError: then no client may be served."""
        found = self.read()
        if found is None:
            self._write(())
            found = []
        if not self._is_expected():
            self._files.write_atomically(self._mark, encode_sealed({"format": FORMAT}))
        self._add(found)
        return found

    def read(self) -> list[Acl] | None:
        """Return what is stored, None where there never was an authorizer; writes nothing. Raises StorageError."""
        found = read_sealed(self._files, self.path, _WHAT, _parse, FORMAT, is_always_sealed=True)
        if found is not None:
            require_private(self._files, self.path, "look at what is in it, then run `chmod 600` on it")
        elif self._is_expected():
            reason = f"it is gone, and there were ACLs: put it back, or remove {MARK_NAME} to begin with none"
            raise StorageError("read", self.path, reason)
        return found

    def _is_expected(self) -> bool:
        return self._files.read_small(self._mark) is not None

    def create(self, wanted: Sequence[Acl]) -> Created:
        """Store those that are not there yet; durable when this returns. Raises Refused, StorageError."""
        room, chars = MAX_ACLS - self._count, MAX_CHARS - self._chars
        added: dict[Acl, None] = {}
        without_room: dict[Acl, None] = {}
        for acl in wanted:
            if acl in added or acl in self._by_name.get(acl.resource_name, ()):
                continue
            if len(added) >= room or _chars_of(acl) > chars:
                without_room[acl] = None
                continue
            added[acl] = None
            chars -= _chars_of(acl)
        if len(added) + len(without_room) > MAX_CHANGED:
            words = "Unable to perform excessively large batch operation."
            raise Refused(ErrorCode.POLICY_VIOLATION, words)
        if added:
            self._write([*self._all(), *added])
            self._add(added)
        return Created(added, without_room)

    def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Remove what any of `filters` matches, and return what each does; durable when this returns.

        Raises Refused for too many, StorageError. An ACL counts once for each filter that matches it, as it
        stands in the answer so often.
        """
        if len(filters) > MAX_FILTERS:
            words = f"Cannot remove acls by more than {MAX_FILTERS} filters in a single delete operation."
            raise Refused(ErrorCode.INVALID_REQUEST, words)
        matches: list[list[Acl]] = []
        rows, chars, compared = MAX_CHANGED, MAX_CHARS, MAX_COMPARED
        for each in filters:
            candidates = self._candidates(each)
            compared -= len(candidates)
            if compared < 0:
                words = f"The filters would be compared with acls more than {MAX_COMPARED} times."
                raise Refused(
                    ErrorCode.INVALID_REQUEST, f"{words} Name the resources, or send fewer filters."
                )
            matching = [acl for acl in candidates if each.matches(acl)]
            rows -= len(matching)
            if rows < 0:
                words = f"Cannot remove more than {MAX_CHANGED} acls in a single delete operation."
                raise Refused(ErrorCode.INVALID_REQUEST, words)
            chars -= sum(map(_chars_of, matching))
            if chars < 0:
                words = f"The acls that the filters match have more than {MAX_CHARS} characters together."
                raise Refused(ErrorCode.INVALID_REQUEST, words)
            matches.append(matching)
        removed = {acl: None for matching in matches for acl in matching}
        if removed:
            self._write([acl for acl in self._all() if acl not in removed])
            self._remove(removed)
        return matches

    def _candidates(self, wanted: AclFilter) -> Collection[Acl]:
        """Return the ACLs among which those are that a filter matches."""
        if wanted.resource_name is None or wanted.pattern_type == PatternType.MATCH:
            return self._all()
        return self._by_name.get(wanted.resource_name, ())

    def _all(self) -> list[Acl]:
        return [acl for named in self._by_name.values() for acl in named]

    def _add(self, acls: Collection[Acl]) -> None:
        for acl in acls:
            self._by_name.setdefault(acl.resource_name, {})[acl] = None
            self._chars += _chars_of(acl)
        self._count += len(acls)

    def _remove(self, acls: Collection[Acl]) -> None:
        for acl in acls:
            named = self._by_name[acl.resource_name]
            del named[acl]
            if not named:
                del self._by_name[acl.resource_name]
            self._chars -= _chars_of(acl)
        self._count -= len(acls)

    def _write(self, acls: Collection[Acl]) -> None:
        document = {"format": FORMAT, "acls": [list(acl) for acl in acls]}
        self._files.write_atomically(self.path, encode_sealed(document), is_secret=True)


def _chars_of(acl: Acl) -> int:
    return len(acl.resource_name) + len(acl.principal) + len(acl.host)


def _parse(document: dict[str, Any]) -> list[Acl]:
    acls = [_checked(Acl(*entry)) for entry in document["acls"]]
    if len(set(acls)) != len(acls):
        raise ValueError("an ACL that stands there twice")
    return acls


def _checked(acl: Acl) -> Acl:
    """Return the ACL of an entry. Raises ValueError for what is none."""
    codes = (
        ResourceType(acl.resource_type),
        PatternType(acl.pattern_type),
        Operation(acl.operation),
        Permission(acl.permission),
    )
    is_text = all(isinstance(text, str) for text in (acl.resource_name, acl.principal, acl.host))
    is_filter = any(code in _OF_FILTERS for code in codes) or acl.pattern_type == PatternType.MATCH
    if not is_text or not acl.resource_name or ":" not in acl.principal or is_filter:
        raise ValueError("an entry that is no ACL")
    return acl
