"""What consumers write into the opaque bytes of JoinGroup and SyncGroup: subscription and assignment.

Both are an int16 version and then a body that is never flexible. The coordinator passes these bytes
on unread; it opens a subscription only to learn which topics a group still reads, and tools open both
to show who owns what. Consumers of all ages meet in one group, so a version newer than ours is read as
the newest we know: later versions only add to the end. Only groups whose protocol type is
"consumer" speak this; other bytes are refused with DecodeError.

| version | what is new |
|---|---|
| 0 | topics and user data; partitions and user data |
| 1 | the partitions a member still holds, so that it can give them up step by step (KIP-429) |
| 2 | the generation in which it was given them (KIP-792) |
| 3 | the member's rack (KIP-881) |

The assignment has the same versions, and nothing of it changed.
"""

from typing import Final

from protocol.codec.codec import data, decode, encode, since
from protocol.codec.primitives import Int32
from protocol.errors import DecodeError
from protocol.messages.shared import TopicPartitions

HIGHEST_VERSION: Final = 3
PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """What a member wants to read, and what it holds at present."""

    topics: list[str]
    user_data: bytes | None = None  # The assignor's own.
    owned_partitions: list[TopicPartitions] = since(1, default_factory=list, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """What a member is to read in this generation."""

    assigned_partitions: list[TopicPartitions]
    user_data: bytes | None = None  # The assignor's own.


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = HIGHEST_VERSION) -> bytes:
    """Return the metadata of a JoinGroup protocol: version and body. Raises EncodeError."""
    return _version_prefix(version) + encode(subscription, version)


def decode_subscription(metadata: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Read a JoinGroup protocol's metadata. Raises DecodeError."""
    return decode(ConsumerProtocolSubscription, _readable_version(metadata), metadata, _VERSION_BYTES)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = HIGHEST_VERSION) -> bytes:
    """Return one member's assignment for SyncGroup: version and body. Raises EncodeError."""
    return _version_prefix(version) + encode(assignment, version)


def decode_assignment(assignment: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Read one member's assignment. Raises DecodeError, also for the empty bytes of a member without one."""
    return decode(ConsumerProtocolAssignment, _readable_version(assignment), assignment, _VERSION_BYTES)


def subscription_version(metadata: bytes | memoryview) -> int:
    """The version in which a JoinGroup protocol's metadata can be read. Raises DecodeError."""
    return _readable_version(metadata)


def _version_prefix(version: int) -> bytes:
    return version.to_bytes(_VERSION_BYTES, "big", signed=True)


def _readable_version(buffer: bytes | memoryview) -> int:
    """Return the version to read `buffer` as: its own, or HIGHEST_VERSION if its own is newer."""
    if len(buffer) < _VERSION_BYTES:
        raise DecodeError(f"{len(buffer)} bytes cannot hold a consumer protocol version")
    version = int.from_bytes(buffer[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError(f"consumer protocol version {version} is negative")
    return min(version, HIGHEST_VERSION)
