"""Records of Kafka's metadata log (KRaft), as far as what Muster knows becomes some.

Each is a frame: its format (1), the record's key and version as unsigned varints, and the record. The layouts are
those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from protocol.codec import codec
from protocol.codec.codec import data, since, struct
from protocol.codec.primitives import Float64, Int8, Int16, Int32, Int64, Uuid, encode_uvarint

FRAME_FORMAT: Final = 1


@data(versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    """A broker, as it was registered last; it stays fenced until it registers anew."""

    broker_id: Int32
    is_migrating_zk_broker: bool = since(2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = since(1, default=False)
    log_dirs: list[Uuid] = since(3, tag=0, default_factory=list)


@struct
class BrokerEndpoint:
    """Where a broker listens."""

    name: str
    host: str
    port: Int16
    security_protocol: Int16


@struct
class BrokerFeature:
    """The levels of a feature that a broker supports."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@data(versions="0", flexible="0+")
class TopicRecord:
    """A topic."""

    name: str
    topic_id: Uuid


@data(versions="0-2", flexible="0+")
class PartitionRecord:
    """A partition with its replicas; leader -1 is none."""

    partition_id: Int32
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    directories: list[Uuid] = since(1, default_factory=list)


@data(versions="0", flexible="0+")
class ConfigRecord:
    """One setting of one resource."""

    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


@data(versions="0", flexible="0+")
class UserScramCredentialRecord:
    """What a user's password is checked with, by one mechanism."""

    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


@data(versions="0", flexible="0+")
class FeatureLevelRecord:
    """The finalized level of a feature; that of `metadata.version` comes first."""

    name: str
    feature_level: Int16


@struct
class EntityData:
    """A part of a quota's entity; no name is the default."""

    entity_type: str
    entity_name: str | None


@data(versions="0", flexible="0+")
class ClientQuotaRecord:
    """One quota of one entity."""

    entity: list[EntityData]
    key: str
    value: Float64
    remove: bool


@data(versions="0", flexible="0+")
class ProducerIdsRecord:
    """The next block of producer ids that nobody has."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


@data(versions="0", flexible="0+")
class AccessControlEntryRecord:
    """An ACL; the codes are those of the wire."""

    id: Uuid
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


KEYS: Final[Mapping[type, tuple[int, int]]] = {
    RegisterBrokerRecord: (0, 3),
    TopicRecord: (2, 0),
    PartitionRecord: (3, 1),
    ConfigRecord: (4, 0),
    UserScramCredentialRecord: (11, 0),
    FeatureLevelRecord: (12, 0),
    ClientQuotaRecord: (14, 0),
    ProducerIdsRecord: (15, 0),
    AccessControlEntryRecord: (18, 0),
}
"""The key and the version in which each is written, which every reader of 4.x knows."""


def encode_record(record: Any) -> bytes:
    """Return a record of the metadata log, as the value of a record in a batch. Raises EncodeError."""
    key, version = KEYS[type(record)]
    head = b"".join(map(encode_uvarint, (FRAME_FORMAT, key, version)))
    return head + codec.encode(record, version)
