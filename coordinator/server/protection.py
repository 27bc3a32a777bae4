"""What stands between the daemon's sockets and its handlers: users, rights and quotas, put together.

Each part knows only itself; this is where they meet the server, in the order in which a request passes them:
quotas before rights, so that what is refused counts as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator.security.sasl.jaas import LoginModule
from coordinator.security.sasl.mechanism import Mechanism
from coordinator.security.sasl.oauthbearer import OAUTHBEARER
from coordinator.security.scram_users import ScramUsers
from coordinator.server.api_table import Api, Handler
from coordinator.server.listener_settings import follow_listeners
from coordinator.server.quotas import open_quotas
from coordinator.server.scram_logins import offer_scram
from coordinator.server.server import Server
from coordinator.settings.model import Settings
from coordinator.settings.prefixed import ListenerSettings
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.workers import Workers
from storage.files import Files

if TYPE_CHECKING:
    from coordinator.server.authorization import Authorization


class Protection:
    """The users, rights and quotas of one daemon."""

    def __init__(
        self, settings: Settings, topics: TopicRegistry, files: Files, workers: Workers, readers: Workers
    ) -> None:
        """Read the quotas; `workers` must run one piece of work at a time. Raises StorageError, InvalidConfig."""
        self._topics = topics
        self.quotas = open_quotas(topics, settings)
        self._authorization: Authorization | None = None
        if settings.authorizer_class_name:
            # Only here: it takes 20 ms, and most daemons have no ACLs.
            from coordinator.server.authorization import Authorization

            self._authorization = Authorization(settings, files, workers, readers)
        self.scram_users = ScramUsers.in_directory(settings.data_directory, files, workers)

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of the APIs that are about quotas and, with an authorizer, ACLs, by API key."""
        of_acls = {} if self._authorization is None else self._authorization.handlers
        return {**self.quotas.handlers(), **of_acls}

    def guarded(self, apis: dict[int, Api], serves_consumer_groups: Callable[[], bool]) -> dict[int, Api]:
        """Return the table with rights asked for before each handler; without an authorizer the table itself."""
        if self._authorization is None:
            return apis
        return self._authorization.guarded(apis, self._topics, serves_consumer_groups)

    def protect(self, server: Server) -> None:
        """Have the server ask for rights, and go by quotas and by what is set for its listeners at run time."""
        if self._authorization is not None:
            server.rights = self._authorization.rights
        self.quotas.follow(server)
        follow_listeners(self._topics, server)

    def open(self, server: Server) -> None:
        """Read ACLs and users, have listeners offer SCRAM and tokens. Waits for the disk. Raises StorageError."""
        if self._authorization is not None:
            self._authorization.open()
        offer_scram(server.mechanisms, self.scram_users)
        server.mechanisms[OAUTHBEARER] = _make_oauthbearer


def _make_oauthbearer(module: LoginModule, settings: ListenerSettings) -> Mechanism:
    from coordinator.server.oauthbearer_logins import make_oauthbearer  # Only here: 10 ms, for few daemons.

    return make_oauthbearer(module, settings)
