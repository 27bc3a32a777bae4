"""The ACLs of a running daemon, and their changes: on the disk first, then in force, then answered (A9, A16).

All methods run on the event-loop thread; the file is written on another, one change after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

import structlog

from coordinator.security.acl_filter import AclFilter
from coordinator.security.acl_store import AclStore, Created
from coordinator.security.acls import Acl
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.topics.refusal import Refused
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode
from storage.files import StorageError

OnCreated: TypeAlias = Callable[[Created | Refused], None]
OnDeleted: TypeAlias = Callable[[list[list[Acl]] | Refused], None]
"""Called with the ACLs that each filter matched, or why nothing was done."""

T = TypeVar("T")

log = structlog.get_logger("muster.authorizer")


class AclRegistry:
    """Changes the ACLs that an authorizer decides by."""

    def __init__(self, authorizer: StandardAuthorizer, store: AclStore, workers: Workers) -> None:
        """`workers` must run one piece of work at a time, in the order in which it came."""
        self.authorizer = authorizer
        self._store = store
        self._workers = workers

    def open(self) -> None:
        """Read what is stored. Waits for the disk. Raises StorageError: then no client may be served."""
        self.authorizer.change(added=self._store.open())
        log.info("ACLs are in force", count=self.authorizer.acl_count)

    def create(self, wanted: Sequence[Acl], done: OnCreated) -> None:
        """Add the ACLs that are not there yet; call `done` when they are in force."""

        def on_created(worked: Future[Created]) -> None:
            created = _outcome(worked)
            if isinstance(created, Created):
                self._apply(added=created.added)
            done(created)

        self._workers.submit(lambda: self._store.create(wanted), on_created)

    def delete(self, filters: Sequence[AclFilter], done: OnDeleted) -> None:
        """Remove the ACLs that any of `filters` matches; call `done` when they are no longer in force."""

        def on_deleted(worked: Future[list[list[Acl]]]) -> None:
            matches = _outcome(worked)
            if isinstance(matches, list):
                self._apply(removed={acl: None for matching in matches for acl in matching})
            done(matches)

        self._workers.submit(lambda: self._store.delete(filters), on_deleted)

    def _apply(self, added: Collection[Acl] = (), removed: Collection[Acl] = ()) -> None:
        if not added and not removed:
            return
        self.authorizer.change(added, removed)
        log.info("ACLs changed", added=len(added), removed=len(removed), count=self.authorizer.acl_count)


def _outcome(worked: Future[T]) -> T | Refused:
    """Return what the work came to. A disk that fails is a refusal: nothing has changed."""
    try:
        return worked.result()
    except Refused as refused:
        return refused
    except StorageError as failure:
        log.error("ACLs cannot be changed", error=str(failure))
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, "The ACLs could not be stored.")
