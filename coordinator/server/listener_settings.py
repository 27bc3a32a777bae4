"""What is set for single listeners while the daemon runs: checked before it is stored, then gone by (Q21, T35)."""

from __future__ import annotations

from coordinator.server.server import Server
from coordinator.topics.registry import TopicRegistry


def follow_listeners(topics: TopicRegistry, server: Server) -> None:
    """Have the server's listeners go by such settings as they are now, and as they change."""
    topics.checks += [server.listener_limits.check, server.tls.check]
    topics.on_altered.append(server.tls.follow)
    topics.on_node_touched.append(server.tls.reload)
    server.tls.follow(topics.settings)
