"""What a node whose logs are on Kafka cannot keep to yet: a start is refused rather than a promise broken."""

from __future__ import annotations

from coordinator.settings.backing import NODE_ID_MAX, PREFIX
from coordinator.settings.listeners import SecurityProtocol
from coordinator.settings.model import Settings
from coordinator.settings.unusable import UnusableSettings


def refuse_what_is_not_there(settings: Settings) -> None:
    """Raises UnusableSettings for a setting that a node whose logs are on Kafka cannot keep to."""
    reasons = {
        "authorizer.class.name has no ACLs to go by": bool(settings.authorizer_class_name),
        "muster.client.metrics has nowhere to keep them": settings.muster_client_metrics,
    }
    for listener in settings.endpoints:
        if listener.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL):
            reasons[f"the listener {listener.name} asks for logins, and no users are kept"] = True
    if settings.muster_node_id_base + settings.node_id > NODE_ID_MAX:
        raise UnusableSettings(f"muster.node.id.base + node.id must not be above {NODE_ID_MAX}")
    for reason, is_given in reasons.items():
        if is_given:
            raise UnusableSettings(f"with {PREFIX}bootstrap.servers {reason} yet")
