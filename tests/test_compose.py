"""The container files are not run here; what they say must still be true of our command line."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from coordinator.daemon.gateway import refuse_as_gateway
from coordinator.daemon.node_refusals import refuse_what_is_not_there
from coordinator.settings.http_listeners import HTTP_DEFAULT, http_listener
from coordinator.settings.listeners import ListenerConfig, SecurityProtocol
from coordinator.settings.model import Settings
from coordinator.settings.sources import load
from harness.daemon import MusterDaemon
from harness.processes import free_port, wait_until
from muster.serve import client_of, parsed_overrides
from muster.spark import standalone

ROOT = Path(__file__).parent.parent
WORKERS = ("spark-worker-1", "spark-worker-2")
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
        ListenerConfig("HOST", "", 9092, "localhost", 9092),
        ListenerConfig("INTERNAL", "", 19092, "muster", 19092),
    )


def test_the_ports_that_are_published_are_those_that_the_host_is_given(
    services: dict[str, Any], settings: Settings
) -> None:
    """On the host's loopback alone: neither asks who it is that asks."""
    kafka, (http,) = settings.endpoints[0], map(http_listener, settings.muster_http_listeners)
    assert http.host == "", "the container's loopback is not what is published"
    assert services["muster"]["ports"] == [
        f"127.0.0.1:{kafka.advertised_port}:{kafka.port}",
        f"127.0.0.1:{http.port}:{http.port}",
    ]


def test_what_every_interface_is_given_asks_who_is_there_and_is_encrypted(services: dict[str, Any]) -> None:
    """The secured daemon has no other listener, and its HTTP stays in the container."""
    secured = services["muster-secured"]
    given = load(parsed_overrides(secured["command"])).settings
    assert given.endpoints == (
        ListenerConfig("SASL_SSL", "", 9094, "localhost", 9094, SecurityProtocol.SASL_SSL),
    )
    assert secured["ports"] == ["9094:9094"]
    assert [http_listener(each).host for each in given.muster_http_listeners] == ["127.0.0.1"]
    published = {
        name for name in services if any(port[:3] != "127" for port in services[name].get("ports", []))
    }
    assert published == {"muster-secured"}
    assert secured["profiles"] == ["secured"], "without a key it would not start"
    mounted = dict(reversed(volume.split(":")[:2]) for volume in secured["volumes"])
    store = given.of_listener("SASL_SSL").text("ssl.keystore.location")
    assert Path(store or "").parent == Path("/etc/muster")
    assert mounted["/etc/muster"] == "./secured"
    assert "secured" in mounted[str(given.data_directory)]


def test_the_image_exposes_what_the_daemon_listens_on(settings: Settings) -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    http = [http_listener(listener).port for listener in settings.muster_http_listeners]
    assert {int(port) for port in exposed.split()} == {*(each.port for each in settings.endpoints), *http}


def test_the_log_lies_on_a_volume(services: dict[str, Any], settings: Settings) -> None:
    targets = [volume.split(":")[1] for volume in services["muster"]["volumes"]]
    assert str(settings.data_directory) in targets
    assert f"--owner muster {settings.data_directory}" in DOCKERFILE


def test_the_health_check_asks_whether_the_daemon_is_ready(services: dict[str, Any], tmp_path: Path) -> None:
    """It asks the default listener; with a daemon it ends well, and where there is none it does not."""
    how, program, flag, code = services["muster"]["healthcheck"]["test"]
    assert (how, program, flag) == ("CMD", "python3", "-c")
    asked = f"{HTTP_DEFAULT}/readyz"
    assert asked in code
    port = free_port()
    here = [sys.executable, flag, code.replace(asked, f"http://127.0.0.1:{port}/readyz")]
    assert subprocess.run(here, stderr=subprocess.DEVNULL, check=False).returncode == 1
    with MusterDaemon(tmp_path, {"muster.http.listeners": f"http://127.0.0.1:{port}"}):
        wait_until(
            lambda: not subprocess.run(here, stderr=subprocess.DEVNULL, check=False).returncode, "ready", 30
        )


NODES: Final = {f"muster-node-{number}": number for number in (1, 2, 3)}
"""The nodes of the profile "cluster", with their ids."""


@pytest.mark.parametrize("name", NODES)
def test_each_node_of_the_cluster_is_a_gateway_that_the_host_reaches(
    services: dict[str, Any], name: str
) -> None:
    """Its listener and the port of the one broker are published under the numbers that clients hear."""
    service, kafka = services[name], services["kafka"]["environment"]
    loaded = load(parsed_overrides(service["command"]))
    assert not loaded.ignored
    backing = client_of(loaded.backing)
    assert backing is not None
    settings = loaded.settings
    refuse_what_is_not_there(settings)
    refuse_as_gateway(settings, "PLAINTEXT" if backing.is_plaintext else "SSL")
    assert backing.bootstrap == kafka["KAFKA_ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://")
    assert (settings.muster_clients, settings.node_id) == ("gateway", NODES[name])
    (endpoint,) = settings.endpoints
    assert (endpoint.host, endpoint.advertised_host) == ("", "localhost")
    ports = [endpoint.port, settings.muster_gateway_first_port + int(kafka["KAFKA_NODE_ID"])]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    assert f"('127.0.0.1', {endpoint.port})" in service["healthcheck"]["test"][-1]
    assert service["profiles"] == services["kafka"]["profiles"] == ["cluster"]
    assert service["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_spark_runs_in_a_profile_and_waits_for_a_healthy_daemon_and_its_workers(
    services: dict[str, Any],
) -> None:
    assert all(services[name]["profiles"] == ["spark"] for name in services if name.startswith("spark"))
    spark = services["spark"]
    assert spark["depends_on"]["muster"] == {"condition": "service_healthy"}
    assert set(spark["depends_on"]) == {"muster", *WORKERS}
    assert spark["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == "muster:19092"


def test_the_master_and_its_workers_run_what_is_in_pyspark_and_agree_on_the_address(
    services: dict[str, Any],
) -> None:
    master = services["spark-master"]
    program, main_class, *flags = master["command"]
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert (program, main_class) == ("spark-class", standalone.MASTER)
    assert given["--host"] == master["hostname"] == "spark-master"
    url = f"spark://spark-master:{given['--port']}"
    assert services["spark"]["environment"]["SPARK_MASTER"] == url
    for name in WORKERS:
        worker = services[name]
        assert worker["command"][:2] == ["spark-class", standalone.WORKER]
        assert worker["command"][-1] == url
        assert worker["depends_on"] == {"spark-master": {"condition": "service_healthy"}}


def test_a_worker_has_the_memory_that_an_executor_asks_for(services: dict[str, Any]) -> None:
    for name in WORKERS:
        command = services[name]["command"]
        assert command[command.index("--memory") + 1] == "1g", (
            "what spark.executor.memory is unless it is set"
        )


def test_the_health_check_of_the_master_passes_a_port_that_listens_and_no_other(
    services: dict[str, Any],
) -> None:
    how, program, flag, code = services["spark-master"]["healthcheck"]["test"]
    assert (how, program, flag) == ("CMD", "python3", "-c")
    assert "('spark-master', 7077)" in code
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = code.replace("('spark-master', 7077)", str(listener.getsockname()))
        assert subprocess.run([sys.executable, "-c", here], check=False).returncode == 0
    done = subprocess.run([sys.executable, "-c", here], check=False, capture_output=True)
    assert done.returncode != 0


def test_the_cluster_of_spark_publishes_no_port(services: dict[str, Any]) -> None:
    """It runs what it is sent, without asking who sends it."""
    assert not [name for name in services if name.startswith("spark") and "ports" in services[name]]


def test_tables_and_work_lie_where_the_user_of_the_image_may_write(services: dict[str, Any]) -> None:
    places = {services[name]["command"][-2] for name in WORKERS}
    for name in ("spark", "spark-master", *WORKERS):
        places |= {volume.split(":")[1] for volume in services[name]["volumes"]}
    assert places == {"/tables", "/home/muster/work"}
    assert "install --directory --owner muster /tables /home/muster/work" in DOCKERFILE


def test_the_image_of_spark_holds_the_jars_before_it_runs() -> None:
    spark = DOCKERFILE.partition(" AS spark\n")[2].partition("\nFROM ")[0]
    assert spark.index("USER muster") < spark.index("RUN python -m muster.spark.jars")


def test_every_image_is_a_target_of_the_dockerfile_and_runs_as_a_user_of_its_own(
    services: dict[str, Any],
) -> None:
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)", DOCKERFILE, re.DOTALL | re.MULTILINE))
    for service in (each for name, each in services.items() if name != "kafka"):
        assert "USER muster" in stages[service["build"]["target"]].splitlines()


def test_the_image_starts_the_daemon_with_flags_that_it_understands() -> None:
    (command,) = re.findall(r"^CMD \[(.*)\]$", DOCKERFILE, re.MULTILINE)
    flags = [flag.strip().strip('"') for flag in command.split(",")]
    assert load(parsed_overrides(flags)).settings.data_directory == Path("/var/lib/muster")
