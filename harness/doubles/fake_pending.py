"""A double of a pending request without a connection: it keeps the response for the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.data.broker import Meter
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.rights import Rights
from coordinator.security.session import NO_SESSION
from protocol.codec.codec import spec
from protocol.framing import SIZE_BYTES, decode_response, response_frame
from protocol.messages import RESPONSES
from storage.log.file_range import FileRange


class FakeConnection:
    """The connection that a request came on, equal to itself alone."""

    def __init__(self, port: int = 9, client_software: tuple[str, str] = ("unknown", "unknown")) -> None:
        self.peer = f"127.0.0.1:{port}"
        self.client_host = "/127.0.0.1"
        self.client_software = client_software


class FakePending:
    """Keeps the response, which is also encoded and decoded, so it must fit the request's version."""

    def __init__(self, api_version: int, client_id: str = "tests", listener: str = "HOST") -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = "/127.0.0.1"
        self.listener = listener
        self.is_open = True
        self.session = NO_SESSION
        self.rights: Rights | None = None
        """Who may do what; None: everybody may do everything."""
        self.meter: Meter | None = None
        """What the request takes of quotas; None: no quota holds for its client."""
        self.connection = FakeConnection()
        self.answer: Any = None
        self.is_answered = False
        self.dropped_for: str | None = None
        self.was_made_aside = False

    @property
    def is_guarded(self) -> bool:
        return self.rights is not None

    @property
    def describes(self) -> Callable[[str], bool] | None:
        rights, principal, host = self.rights, self.session.principal, self.client_host.removeprefix("/")
        if rights is None:
            return None
        return lambda name: rights.permits(principal, host, Operation.DESCRIBE, ResourceType.TOPIC, name)

    def part(self, part: Any) -> Any:
        return part

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.rights is None:
            return True
        host = self.client_host.removeprefix("/")
        return self.rights.may(self.session.principal, host, operation, resource_type, name)

    def reply(self, response: Any) -> None:
        assert not self.is_answered, "answered twice"
        self.is_answered = True
        key = spec(type(response)).api_key
        assert key is not None
        chunks = response_frame(7, response, self.api_version)
        sent = b"".join(chunk.whole() if isinstance(chunk, FileRange) else chunk for chunk in chunks)
        _, self.answer = decode_response(RESPONSES[key], self.api_version, sent[SIZE_BYTES:])

    def reply_aside(
        self, make: Callable[[], Any], run: Callable[[Callable[[], Any], Callable[[Any], None]], None]
    ) -> None:
        self.was_made_aside = True
        run(make, lambda made: self.reply(made.result()))

    def no_reply(self) -> None:
        assert not self.is_answered, "answered twice"
        self.is_answered = True

    def drop(self, reason: str) -> None:
        assert not self.is_answered, "answered twice"
        self.is_answered = True
        self.dropped_for = reason
