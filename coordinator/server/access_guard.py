"""Rights before handlers: the guard that carries out what the checks of `coordinator/access` say.

A request that passes whole reaches its handler as if there were no guard. Otherwise the handler sees a request
without the parts that are refused, and what it answers, at once, later or in pieces from several shards, is
completed on its way to the client. Prepared requests hold until the ACLs change: one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import structlog

from coordinator.access.asker import Asker, Facts
from coordinator.access.table import CHECKS
from coordinator.access.verdict import Check, Complete, Verdict, no_check
from coordinator.quotas.meter import Meter
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.rights import Rights
from coordinator.server.api_table import Api, Handler
from coordinator.server.guarding import guarded
from coordinator.server.pending import GatherPart, Pending
from coordinator.topics.registry import TopicRegistry

T = TypeVar("T")

log = structlog.get_logger("muster.access")


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """What checks go by beside rights, as it is now."""

    topics: TopicRegistry
    serves_consumer_groups: Callable[[], bool]

    @property
    def creates_topics(self) -> bool:
        return self.topics.settings.auto_create_topics_enable

    @property
    def deletes_topics(self) -> bool:
        return self.topics.settings.delete_topic_enable

    @property
    def has_consumer_groups(self) -> bool:
        return self.serves_consumer_groups()


class AccessGuard:
    """The guard of one API: asks `rights` what `check` wants to know."""

    def __init__(self, check: Check, rights: Rights, facts: Facts) -> None:
        self._check, self._rights, self._facts = check, rights, facts

    def handle(self, handle: Handler, request: Any, pending: Pending) -> None:
        asker = self._asker(pending)
        verdict = self._check(request, asker)
        if verdict.request is None:
            if verdict.silence:
                pending.drop(verdict.silence)
            else:
                pending.reply(verdict.response)
        elif verdict.is_whole and not verdict.asks:
            handle(verdict.request, pending)
        else:
            handle(verdict.request, GuardedPending(pending, verdict, asker))

    def permit(self, request: Any, pending: Pending) -> Rights | None:
        """Hold while the ACLs are as they are now, if the request passes whole."""
        return self._rights if self._check(request, self._asker(pending)).is_whole else None

    def _asker(self, pending: Pending) -> Asker:
        client = ClientRights(self._rights, pending.session.principal, pending.client_host.removeprefix("/"))
        return Asker(pending.api_version, client, self._facts)


class ClientRights:
    """What one client may do. Whatever keeps the authorizer from an answer, nothing is permitted by it (A27)."""

    __slots__ = ("_host", "_principal", "_rights")

    def __init__(self, rights: Rights, principal: str, host: str) -> None:
        self._rights, self._principal, self._host = rights, principal, host

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self._asked(False, self._rights.may, operation, resource_type, name)

    def permits(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self._asked(False, self._rights.permits, operation, resource_type, name)

    def permitted(
        self, operations: Sequence[Operation], resource_type: ResourceType, name: str
    ) -> Sequence[Operation]:
        return self._asked((), self._rights.permitted, operations, resource_type, name)

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._asked(False, self._rights.may_some, operation, resource_type)

    def _asked(self, nothing: T, question: Callable[..., T], *about: Any) -> T:
        try:
            return question(self._principal, self._host, *about)
        except Exception:
            log.exception("denied, as rights are not known", principal=self._principal)
            return nothing


class GuardedPending(Pending):
    """A request of which a part was refused, or whose answer has to be completed: its handler answers this one."""

    __slots__ = ("_asker", "_is_split", "_verdict", "_whole")

    is_guarded: ClassVar[bool] = True

    def __init__(self, whole: Pending, verdict: Verdict, asker: Asker) -> None:
        super().__init__(
            whole.connection,
            whole.api,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
            whole.frame_bytes,
        )
        self._whole, self._verdict, self._asker = whole, verdict, asker
        self._is_split = False

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self._asker.may(operation, resource_type, name)

    @property
    def is_open(self) -> bool:
        return self._whole.is_open

    @property
    def meter(self) -> Meter | None:
        return self._whole.meter

    @property
    def describes(self) -> Callable[[str], bool]:
        return self._asker.describes

    def part(self, part: GatherPart) -> Any:
        complete = self._verdict.complete_part
        if complete is None:
            return part
        self._is_split = True
        return CompletedPart(part, complete, self)

    def reply(self, response: Any) -> None:
        if not self._whole.is_open:
            self._whole.reply(response)  # It frees what the request holds.
            return
        completed = self._completed(response)
        if completed is not None:
            self._whole.reply(completed)

    def _completed(self, response: Any) -> Any:
        """Return the whole response; None if it cannot be made: then the connection is closed."""
        verdict = self._verdict
        try:
            if verdict.complete_part is not None and not self._is_split:
                response = verdict.complete_part(response)
            return response if verdict.complete is None else verdict.complete(response)
        except Exception:  # A bug of ours must not end the turn of the shard that answers.
            self.on_failure()
            return None

    def on_failure(self) -> None:
        """Close the connection, behind an exception that is being handled."""
        log.exception("answer not completed", api=self.api.name, version=self.api_version)
        self._whole.drop("the answer could not be completed")

    def reply_aside(
        self,
        make: Callable[[], Any],
        run: Callable[[Callable[[], object], Callable[[Any], None]], None],
    ) -> None:
        verdict = self._verdict
        assert verdict.complete_part is None or self._is_split, "rights are asked for on the event loop"
        complete = verdict.complete
        self._whole.reply_aside(make if complete is None else lambda: complete(make()), run)

    def no_reply(self) -> None:
        if self._verdict.silence:
            self._whole.drop(self._verdict.silence)
        else:
            self._whole.no_reply()

    def drop(self, reason: str) -> None:
        self._whole.drop(reason)

    def release_memory(self) -> None:
        self._whole.release_memory()


class CompletedPart:
    """What a shard answers its part of a request to, which is completed before it is gathered."""

    __slots__ = ("__weakref__", "_complete", "_part", "_pending")

    def __init__(self, part: GatherPart, complete: Complete, pending: GuardedPending) -> None:
        self._part, self._complete, self._pending = part, complete, pending

    def reply(self, response: Any) -> None:
        if not self._pending.is_open:
            self._part.reply(response)  # To no client: the rest of the request is let go of.
            return
        try:
            completed = self._complete(response)
        except Exception:
            self._pending.on_failure()
        else:
            self._part.reply(completed)


def guarded_apis(apis: Mapping[int, Api], rights: Rights, facts: Facts) -> dict[int, Api]:
    """Return the API table with the check of its rights before each handler.

    Raises KeyError for an API without a row in the table of checks: it is served to no client.
    """
    return {key: _guarded(api, CHECKS[key], rights, facts) for key, api in apis.items()}


def _guarded(api: Api, check: Check, rights: Rights, facts: Facts) -> Api:
    return api if check is no_check else guarded(api, AccessGuard(check, rights, facts))
