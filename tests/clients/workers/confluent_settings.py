"""A test's member in librdkafka's settings, which are the same for all that is done with it."""

from __future__ import annotations

from typing import Any

from harness.reporting import Config


def consumer_config(config: Config) -> dict[str, Any]:
    """librdkafka's settings for a test's member."""
    settings = {
        "bootstrap.servers": config["bootstrap"],
        "client.id": config.get("client_id", "confluent"),
        "group.id": config["group"],
        "session.timeout.ms": config.get("session_timeout_ms", 6000),
        "heartbeat.interval.ms": 1000,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        # Its default, 10 s, is longer than a session of these tests: a member whose broker was killed twice came
        # back when its session was over, and had read on in what it had fetched before.
        "reconnect.backoff.max.ms": 1000,
    }
    if config.get("protocol") == "consumer":
        # The broker says how long a session is and how often a heartbeat comes (KIP-848).
        del settings["session.timeout.ms"], settings["heartbeat.interval.ms"]
        settings["group.protocol"] = "consumer"
        if "assignor" in config:
            settings["group.remote.assignor"] = config["assignor"]
    elif "assignor" in config:
        settings["partition.assignment.strategy"] = config["assignor"]
    if "max_poll_interval_ms" in config:
        settings["max.poll.interval.ms"] = config["max_poll_interval_ms"]
    if "instance_id" in config:
        settings["group.instance.id"] = config["instance_id"]
    return settings


def subscription(config: Config) -> list[str]:
    """What the member subscribes to: topics, or what begins with ^, which the broker of a new group matches."""
    topics: list[str] = config["topics"]
    return [f"^{config['pattern']}"] if "pattern" in config else topics
