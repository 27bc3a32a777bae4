"""A test's member, in the settings that aiokafka and kafka-python have in common. Knows neither."""

from __future__ import annotations

from typing import Any

from harness.reporting import Config


def member_settings(config: Config, client_id: str) -> dict[str, Any]:
    """A member's settings without the assignor; `client_id` is used unless the test has one."""
    settings = {
        "bootstrap_servers": config["bootstrap"],
        "client_id": config.get("client_id", client_id),
        "group_id": config["group"],
        "session_timeout_ms": config.get("session_timeout_ms", 6000),
        "heartbeat_interval_ms": 1000,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 100,
    }
    if "instance_id" in config:
        settings["group_instance_id"] = config["instance_id"]
    return settings
