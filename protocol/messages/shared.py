"""Parts of messages that several APIs declare alike: each is declared here once, without an API's name."""

from dataclasses import field

from protocol.codec.codec import struct
from protocol.codec.primitives import Int32, Uint16


@struct
class TopicPartitions:
    """Some partitions of one topic."""

    topic: str
    partitions: list[Int32] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    """The leader to go to instead; -1 where it is not known or the asked one was right (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class NodeEndpoint:
    """The address of a leader that the answer names (KIP-951)."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@struct
class ControllerListener:
    """An address of a controller, by the name of the listener."""

    name: str
    host: str
    port: Uint16
