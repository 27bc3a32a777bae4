"""AddRaftVoter (key 80) and RemoveRaftVoter (key 81): change who votes on the cluster's metadata (KIP-853).

Flexible from their first versions.

| version | what is new |
|---|---|
| 1 | AddRaftVoter: an answer before the new set of voters is committed, on demand |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since
from protocol.codec.primitives import Int16, Int32, Uuid
from protocol.messages.shared import ControllerListener


@request(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """The controller to add, by its id and that of its metadata directory."""

    cluster_id: str | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[ControllerListener] = field(default_factory=list)
    ack_when_committed: bool = since(1, default=True)


@response(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """Whether the controller was added to the voters, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


@request(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """The controller to remove, by its id and that of its metadata directory."""

    cluster_id: str | None
    voter_id: Int32
    voter_directory_id: Uuid


@response(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """Whether the controller was removed from the voters, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
