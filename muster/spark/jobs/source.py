"""Checks the cluster before Spark is started: whether it answers, and whether its topic is the checkpoint's.

A checkpoint holds offsets, which mean nothing in another topic: beside it lies which topic of which cluster it is
about, and a run on any other is refused. So is one whose checkpoint is gone while its tables are not, which would
write everything a second time. Clients are made again each time: librdkafka's may stay silent after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec

from muster.spark.clients import EARLIEST, LATEST, TIMEOUT_S, error_text, log_offsets, new_job_admin
from muster.spark.errors import PassingError
from muster.spark.jobs.options import RefusedRunError
from muster.spark.tables import checkpoint_path
from protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """The identity of a checkpoint's topic. The topic id is "" on clusters without topic ids."""

    cluster_id: str
    topic: str
    topic_id: str


def identify_topic(bootstrap: str, topic: str, kafka: Mapping[str, str]) -> TopicIdentity:
    """The topic as the cluster describes it. Raises RefusedRunError, or PassingError without an answer."""
    admin = new_job_admin(bootstrap, kafka)
    try:
        found = admin.list_topics(topic, timeout=TIMEOUT_S).topics.get(topic)
        if found is None or found.error is not None:
            raise RefusedRunError(f"there is no topic {topic} on {bootstrap}")
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)[topic].result()
        cluster = admin.describe_cluster(request_timeout=TIMEOUT_S).result()
    except KafkaException as error:
        raise PassingError(f"{bootstrap} does not answer: {error_text(error)}") from None
    return TopicIdentity(str(cluster.cluster_id), topic, str(described.topic_id))


def find_reach(
    bootstrap: str, topic: str, partitions: Iterable[int], kafka: Mapping[str, str]
) -> tuple[dict[int, int], dict[int, int]]:
    """Each partition's first offset, and its last stable offset, the readable end. Raises PassingError."""
    admin = new_job_admin(bootstrap, kafka)
    everywhere = [TopicPartition(topic, partition) for partition in partitions]
    begins = _offsets_at(admin, dict.fromkeys(everywhere, EARLIEST), committed_only=True)
    return begins, _offsets_at(admin, dict.fromkeys(everywhere, LATEST), committed_only=True)


def log_ends(bootstrap: str, topic: str, kafka: Mapping[str, str]) -> dict[int, int]:
    """The end of each partition's log, open transactions included. Raises PassingError."""
    admin = new_job_admin(bootstrap, kafka)
    try:
        known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    except KafkaException as error:
        raise PassingError(f"the partitions of {topic} could not be fetched: {error_text(error)}") from None
    return _offsets_at(
        admin, {TopicPartition(topic, partition): LATEST for partition in known}, committed_only=False
    )


def _offsets_at(
    admin: AdminClient, wanted: dict[TopicPartition, OffsetSpec], *, committed_only: bool
) -> dict[int, int]:
    """The offset of each partition, of one topic. Raises PassingError."""
    try:
        offsets = log_offsets(admin, wanted, committed_only=committed_only).all()
        return {partition: offset for (_, partition), offset in offsets.items()}
    except KafkaException as error:
        raise PassingError(f"the ends of the log could not be fetched: {error_text(error)}") from None


def claim(out: str, job: str, source: TopicIdentity) -> None:
    """Record the topic beside a new checkpoint. Raises RefusedRunError if what is there is of another topic."""
    checkpoint = Path(checkpoint_path(out, job))
    note = checkpoint.with_name(f"{job}.source.json")
    if not checkpoint.exists():
        if _has_tables(out, job):
            raise RefusedRunError(
                f"{out} has tables of the job {job} and no checkpoint: a run would write every row again. "
                "Remove the tables, or choose another --out"
            )
    elif note.exists():
        before = TopicIdentity(**json.loads(note.read_text()))
        if before != source:
            raise RefusedRunError(_differs(out, job, before, source))
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(asdict(source)))


def _has_tables(out: str, job: str) -> bool:
    ledgers = Path(out, "_batches", job)
    return ledgers.is_dir() and any(ledgers.iterdir())


def _differs(out: str, job: str, before: TopicIdentity, now: TopicIdentity) -> str:
    if before.cluster_id != now.cluster_id:
        what = f"of cluster {before.cluster_id}, and this is cluster {now.cluster_id}"
    else:
        what = f"of another {now.topic} (topic id {before.topic_id}): it was deleted and created again since"
    return f"{out} has the progress of the job {job} on a topic {what}. Choose another --out"
