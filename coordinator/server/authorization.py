"""The authorizer that the settings ask for, with the ACLs that are stored, and the APIs that change them.

Imported only where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from coordinator.admin.acls import AclApis
from coordinator.security.acl_registry import AclRegistry
from coordinator.security.acl_store import AclStore
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.server.access_guard import DaemonFacts, guarded_apis
from coordinator.server.api_table import Api
from coordinator.settings.model import Settings
from coordinator.settings.permissions import principals_of
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.workers import Workers
from storage.files import Files

log = structlog.get_logger("muster.authorizer")


class Authorization:
    """What goes with the authorizer."""

    def __init__(self, settings: Settings, files: Files, workers: Workers, readers: Workers) -> None:
        """`workers` must run one piece of work at a time, in the order in which it came."""
        self._settings = settings
        self.rights = StandardAuthorizer(
            principals_of(settings.super_users), allow_everyone=settings.allow_everyone_if_no_acl_found
        )
        """Who decides about rights."""
        store = AclStore(settings.data_directory, files)
        self._registry = AclRegistry(self.rights, store, workers)
        self.handlers: dict[int, Callable[[Any, Any], None]] = AclApis(self._registry, readers).handlers()
        """The handlers of APIs that are answered otherwise where there is an authorizer, by key."""

    def guarded(
        self,
        apis: dict[int, Api],
        topics: TopicRegistry,
        serves_consumer_groups: Callable[[], bool],
    ) -> dict[int, Api]:
        """Return the table with a check of rights before each handler."""
        return guarded_apis(apis, self.rights, DaemonFacts(topics, serves_consumer_groups))

    def open(self) -> None:
        """Put the stored ACLs in force. Waits for the disk. Raises StorageError: then no client may be served."""
        self._registry.open()
        log.info(
            "rights are asked for",
            super_users=sorted(principals_of(self._settings.super_users)),
            allow_everyone=self._settings.allow_everyone_if_no_acl_found,
        )
