"""The container files are not run here; what they say must still be true of our command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.listeners import Listener
from coordinator.settings import Settings
from coordinator.settings_sources import load
from muster.cli import app
from muster.serve import parsed_overrides

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def settings(services: dict[str, Any]) -> Settings:
    """What the daemon would run with: its flags and its environment, read as it reads them."""
    daemon = services["muster"]
    loaded = load(parsed_overrides(daemon["command"]), daemon["environment"])
    assert not loaded.foreign_variables
    assert not loaded.ignored
    return loaded.settings


def test_the_daemon_has_one_listener_for_the_host_and_one_for_containers(settings: Settings) -> None:
    assert settings.endpoints == (
        Listener("HOST", "", 9092, "localhost", 9092),
        Listener("INTERNAL", "", 19092, "muster", 19092),
    )


def test_the_port_that_is_published_is_the_one_that_the_host_is_told(
    services: dict[str, Any], settings: Settings
) -> None:
    (published,) = services["muster"]["ports"]
    _, host_port, container_port = published.split(":")
    assert (int(host_port), int(container_port)) == (
        settings.endpoints[0].advertised_port,
        settings.endpoints[0].port,
    )


def test_the_log_lies_on_a_volume(services: dict[str, Any], settings: Settings) -> None:
    targets = [volume.split(":")[1] for volume in services["muster"]["volumes"]]
    assert str(settings.data_directory) in targets
    assert f"--owner muster {settings.data_directory}" in DOCKERFILE


def test_the_health_check_is_a_command_of_ours_that_ends(services: dict[str, Any]) -> None:
    how, program, *arguments = services["muster"]["healthcheck"]["test"]
    assert (how, program) == ("CMD", "muster")
    command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    assert command.__name__ == "list_command"
    assert bound.arguments["bootstrap"] == "127.0.0.1:19092"


def test_spark_runs_in_a_profile_and_waits_for_a_healthy_daemon(services: dict[str, Any]) -> None:
    spark = services["spark"]
    assert spark["profiles"] == ["spark"]
    assert spark["depends_on"] == {"muster": {"condition": "service_healthy"}}
    assert spark["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == "muster:19092"


def test_every_image_is_a_target_of_the_dockerfile_and_runs_as_a_user_of_its_own(
    services: dict[str, Any],
) -> None:
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE))
    for service in services.values():
        assert "USER muster" in stages[service["build"]["target"]].splitlines()


def test_the_image_starts_the_daemon_with_flags_that_it_understands() -> None:
    (command,) = re.findall(r"^CMD \[(.*)\]$", DOCKERFILE, re.MULTILINE)
    flags = [flag.strip().strip('"') for flag in command.split(",")]
    assert load(parsed_overrides(flags)).settings.data_directory == Path("/var/lib/muster")
