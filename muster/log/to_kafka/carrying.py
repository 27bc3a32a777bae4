"""What a directory of Muster's has beside its logs, as records of Kafka's metadata log.

Topics with their ids, partitions and settings; what was set at run time for the node, for groups and for client
metrics; SCRAM users, ACLs, quotas, feature levels, and where the free producer ids begin.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from coordinator.data.producer_ids import read_next_id
from coordinator.quotas.entities import entity_from
from coordinator.quotas.registry import QUOTAS_FILE
from coordinator.security.acl_store import AclStore
from coordinator.security.scram_file import ScramFile
from coordinator.topics.catalogue import CatalogueEntry
from coordinator.topics.client_metrics_configs import CLIENT_METRICS_FILE
from coordinator.topics.dynamic_kinds import THREAD_COUNTS
from coordinator.topics.dynamic_settings import read_dynamic
from coordinator.topics.feature_levels import read_features
from coordinator.topics.group_configs import GROUP_CONFIG_FILE
from coordinator.topics.listener_kinds import option_of
from coordinator.topics.resource_configs import ResourceConfigs
from muster.log.places import LogSource, LogToolError
from muster.log.to_kafka.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from protocol.messages.describe_configs import ConfigResourceType
from storage.log.checkpoints import NO_BROKER_EPOCH, MetaProperties
from storage.log.partition_files import decode_uuid, read_leader_epochs

METADATA_VERSION: Final = 30
"""The level of `metadata.version` that is 4.3-IV0: what Kafka 4.3 formats a new directory with."""
OTHER_FEATURES: Final[Mapping[str, int]] = {
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""Features that Muster does not serve, at the levels of a new Kafka 4.3."""

LEFT_TO_PROPERTIES: Final = THREAD_COUNTS | {"log.cleaner.threads", "min.insync.replicas"}

COUNTED: Final[Mapping[str, type]] = {
    "topics": TopicRecord,
    "partitions": PartitionRecord,
    "settings": ConfigRecord,
    "SCRAM credentials": UserScramCredentialRecord,
    "ACLs": AccessControlEntryRecord,
    "quotas": ClientQuotaRecord,
}


def counted(records: Iterable[Any]) -> dict[str, int]:
    """How many of them there are of what users know."""
    kinds = Counter(map(type, records))
    return {what: kinds[kind] for what, kind in COUNTED.items()}


def carried(source: LogSource, topics: Sequence[CatalogueEntry], identity: MetaProperties) -> list[Any]:
    """Read everything, and return its records in the order in which Kafka applies them.

    Of the catalogue the `topics` are given. Raises StorageError, CorruptSegment, and LogToolError for a file that
    may not be used.
    """
    node, directory_id = identity.node_id, decode_uuid(identity.directory_id)
    next_id = read_next_id(source.files, source.path)
    return [
        *_features(source),
        _broker(node, directory_id),
        *chain.from_iterable(_topic(source, entry, node, directory_id) for entry in topics),
        *_settings(source, topics, node),
        *_users(source),
        *_acls(source),
        *_quotas(source),
        ProducerIdsRecord(broker_id=node, broker_epoch=NO_BROKER_EPOCH, next_producer_id=next_id),
    ]


def _settings(source: LogSource, topics: Sequence[CatalogueEntry], node: int) -> Iterator[ConfigRecord]:
    """What was set at run time, but for what `left_to_properties` has; settings of Muster's own cannot be."""
    files, directory = source.files, source.path
    dynamic = read_dynamic(files, directory)
    of_brokers = {
        resource: {name: value for name, value in texts.items() if not _is_left(name)}
        for resource, texts in (("", dynamic.of_all), (str(node), dynamic.of_node))
    }
    configs: dict[ConfigResourceType, ResourceConfigs] = {
        ConfigResourceType.TOPIC: {entry.name: entry.overrides for entry in topics},
        ConfigResourceType.BROKER: of_brokers,
        ConfigResourceType.GROUP: GROUP_CONFIG_FILE.read(files, directory),
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_FILE.read(files, directory),
    }
    for kind, resources in configs.items():
        for resource, texts in resources.items():
            for name, value in texts.items():
                yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def left_to_properties(source: LogSource) -> dict[str, str]:
    """What was set at run time and Kafka has to be started with.

    Numbers of threads Kafka lets at most double from what it was started with, and where it refuses one it applies
    none of the settings of that scope, retention among them. `min.insync.replicas` its controller sets by itself.
    """
    dynamic = read_dynamic(source.files, source.path)
    return {name: value for name, value in {**dynamic.of_all, **dynamic.of_node}.items() if _is_left(name)}


def _is_left(name: str) -> bool:
    return option_of(name) in LEFT_TO_PROPERTIES


def _features(source: LogSource) -> Iterator[FeatureLevelRecord]:
    yield FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)
    levels = {**OTHER_FEATURES, **read_features(source.files, source.path).levels}
    for name, level in sorted(levels.items()):
        if level:  # Kafka has no record of what is off.
            yield FeatureLevelRecord(name=name, feature_level=level)


def _broker(node: int, directory_id: bytes) -> RegisterBrokerRecord:
    """The registration that the marker of a clean shutdown is of.

    Without it the first registration counts as one after a crash, and takes the broker out of every ISR.
    """
    return RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=uuid.uuid4().bytes,
        broker_epoch=NO_BROKER_EPOCH,
        end_points=[],
        features=[],
        rack=None,
        fenced=True,
        log_dirs=[directory_id],
    )


def _topic(source: LogSource, entry: CatalogueEntry, node: int, directory_id: bytes) -> Iterator[Any]:
    """The topic and its partitions: without a leader, as a node that is shut down leaves them."""
    yield TopicRecord(name=entry.name, topic_id=entry.topic_id)
    for partition in range(entry.partitions):
        epochs = read_leader_epochs(source.files, source.path / f"{entry.name}-{partition}")
        yield PartitionRecord(
            partition_id=partition,
            topic_id=entry.topic_id,
            replicas=[node],
            isr=[node],
            removing_replicas=[],
            adding_replicas=[],
            leader=-1,
            leader_epoch=epochs[-1][0] if epochs else 0,
            partition_epoch=0,
            directories=[directory_id],
        )


def _users(source: LogSource) -> Iterator[UserScramCredentialRecord]:
    table = ScramFile(source.path, source.files).read()
    for name, of_user in ({} if table is None else table.users).items():
        for mechanism, credential in of_user.items():
            yield UserScramCredentialRecord(
                name=name,
                mechanism=mechanism.number,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )


def _acls(source: LogSource) -> Iterable[AccessControlEntryRecord]:
    return [
        AccessControlEntryRecord(
            id=uuid.uuid4().bytes,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in AclStore(source.path, source.files).read() or ()
    ]


def _quotas(source: LogSource) -> Iterator[ClientQuotaRecord]:
    for name, limits in QUOTAS_FILE.read(source.files, source.path).items():
        try:
            entity = [EntityData(entity_type=kind, entity_name=of) for kind, of in entity_from(name)]
            values = {key: float(text) for key, text in limits.items()}
        except ValueError as error:
            raise LogToolError(f"{QUOTAS_FILE.file_name}, {name}: {error}") from error
        for key, value in values.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=value, remove=False)
