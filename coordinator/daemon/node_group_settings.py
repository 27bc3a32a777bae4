"""What consumer groups of a node go by: its settings, and above them what the Kafka has for single groups."""

from __future__ import annotations

from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.group_settings import GroupSettingsWatch, Texts
from coordinator.part_settings import consumer_group_settings, group_overrides, topic_settings
from coordinator.settings.model import Settings
from coordinator.topics.group_configs import GROUP_KEYS, assignment_interval_ms
from coordinator.topics.group_registry import numbers_in_force


class NodeGroupSettings:
    """`in_force` is what all shards go by. `start` once the cluster has started, `close` at the end."""

    def __init__(self, cluster: BackingCluster, settings: Settings) -> None:
        self._bounds = topic_settings(settings, cluster.cluster_id or "")
        self.in_force = consumer_group_settings(settings)
        self.in_force.assignment_interval_ms = assignment_interval_ms(self._bounds)
        self._watch = GroupSettingsWatch(cluster, self._on_set)

    async def start(self) -> None:
        """Have what is set in force, and follow it."""
        await self._watch.start()

    async def close(self) -> None:
        """Follow nothing more."""
        await self._watch.close()

    def _on_set(self, group_id: str, texts: Texts) -> None:
        """From the group's next heartbeat on. What only a later Kafka knows is left alone."""
        known = {name: text for name, text in texts.items() if name in GROUP_KEYS}
        self.in_force.override(group_id, group_overrides(numbers_in_force(group_id, known, self._bounds)))
