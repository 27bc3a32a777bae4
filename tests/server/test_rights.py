"""A daemon with an authorizer: ACLs over the wire, kept over a kill; no start where they cannot be believed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coordinator.security.acl_store import FILE_NAME
from coordinator.settings.permissions import STANDARD_AUTHORIZER
from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from protocol.messages.describe_configs import ConfigSource, DescribeConfigsRequest, DescribeConfigsResource
from tests.server.test_start_and_stop import FEW, refusal

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3
VERSION = 3
BROKER, NODE = 4, "1"
SECURED = {**FEW, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin; User:ANONYMOUS"}


def creation(name: str) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal="User:alice",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )


def everything() -> dict[str, Any]:
    names = ("resource_name_filter", "principal_filter", "host_filter")
    codes = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    return {**dict.fromkeys(names), **dict.fromkeys(codes, ANY)}


def described(client: WireClient) -> list[str]:
    answer = client.ask(DescribeAclsRequest(**everything()), VERSION)
    assert answer.error_code == 0
    return sorted(resource.resource_name for resource in answer.resources)


def create(client: WireClient, *names: str) -> list[int]:
    answer = client.ask(CreateAclsRequest(creations=list(map(creation, names))), VERSION)
    return [result.error_code for result in answer.results]


def test_acls_are_kept_over_a_kill(tmp_path: Path) -> None:
    """What was answered is on the disk: made ones are there, removed ones are not."""
    with MusterDaemon(tmp_path, SECURED) as daemon:
        with WireClient(daemon.bootstrap) as client:
            assert create(client, "orders", "returns", "") == [0, 0, ErrorCode.INVALID_REQUEST]
            assert described(client) == ["orders", "returns"]
            wanted = DeleteAclsFilter(**everything() | {"resource_name_filter": "orders"})
            client.ask(DeleteAclsRequest(filters=[wanted]), VERSION)
        daemon.kill()
        daemon.start()
        with WireClient(daemon.bootstrap) as client:
            assert described(client) == ["returns"]
        assert (daemon.log_dir / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_code_of_nothing_ends_the_connection_and_the_daemon_goes_on(tmp_path: Path) -> None:
    """A12."""
    with MusterDaemon(tmp_path, SECURED) as daemon:
        with WireClient(daemon.bootstrap) as client, pytest.raises(ConnectionError):
            client.ask(DescribeAclsRequest(**everything() | {"operation": 0}), VERSION)
        with WireClient(daemon.bootstrap) as client:
            assert create(client, "orders") == [0]


def test_changes_of_several_clients_are_made_one_after_the_other(tmp_path: Path) -> None:
    """Sent before any answer is read: each sees those before it."""
    with MusterDaemon(tmp_path, SECURED) as daemon:
        clients = [WireClient(daemon.bootstrap) for _ in range(8)]
        for number, client in enumerate(clients):
            client.send(CreateAclsRequest(creations=[creation("shared"), creation(f"own {number}")]), VERSION)
        for client in clients:
            assert [result.error_code for result in client.receive().results] == [0, 0]
        assert described(clients[0]) == sorted(["shared", *(f"own {number}" for number in range(8))])
        filters = [DeleteAclsFilter(**everything())]
        for client in clients:
            client.send(DeleteAclsRequest(filters=filters), VERSION)
        removed = sum(len(client.receive().filter_results[0].matching_acls) for client in clients)
        assert removed == 9
        for client in clients:
            client.close()


def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    """Whatever file an earlier start has left: it is neither read nor changed."""
    with MusterDaemon(tmp_path, FEW) as daemon:
        (daemon.log_dir / FILE_NAME).write_text("torn")
        daemon.terminate()
        daemon.start()
        with WireClient(daemon.bootstrap) as client:
            assert create(client, "orders") == [ErrorCode.SECURITY_DISABLED]
            answer = client.ask(DescribeAclsRequest(**everything()), VERSION)
            assert answer.error_code == ErrorCode.SECURITY_DISABLED
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
            for request in (
                DescribeAclsRequest(**{**everything(), field: 0}),
                DeleteAclsRequest(filters=[DeleteAclsFilter(**{**everything(), field: 0})]),
            ):  # A12: what cannot be read is closed, as by Kafka, whatever is answered otherwise.
                with WireClient(daemon.bootstrap) as client, pytest.raises(ConnectionError):
                    client.ask(request, VERSION)
        assert (daemon.log_dir / FILE_NAME).read_text() == "torn"


def test_settings_of_the_authorizer_are_shown_without_their_values(tmp_path: Path) -> None:
    """F12: those that Kafka's broker does not know; only if they are given."""
    names = ["authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"]
    asked = DescribeConfigsResource(resource_type=BROKER, resource_name=NODE, configuration_keys=names)
    with MusterDaemon(tmp_path, SECURED) as daemon, WireClient(daemon.bootstrap) as client:
        request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        shown = {config.name: config for config in client.ask(request, 4).results[0].configs}
    assert shown.keys() == {"authorizer.class.name", "super.users"}
    assert shown["authorizer.class.name"].value == STANDARD_AUTHORIZER
    secret = shown["super.users"]
    assert (secret.value, secret.is_sensitive, secret.config_type) == (None, True, 0)
    assert [(each.name, each.value, each.source) for each in secret.synonyms] == [
        ("super.users", None, ConfigSource.STATIC_BROKER_CONFIG)
    ]
    assert "User:admin" not in repr(shown)


def overrides(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--override", f"{name}={value}")]


DAMAGE = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "readable": lambda path: path.chmod(0o644),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_acls_that_cannot_be_believed_keep_the_daemon_from_starting(tmp_path: Path, damage: Any) -> None:
    """F13: one sentence, which names the file; and the file is left as it is."""
    with MusterDaemon(tmp_path, SECURED) as daemon:
        with WireClient(daemon.bootstrap) as client:
            assert create(client, "orders") == [0]
        daemon.terminate()
        path = daemon.log_dir / FILE_NAME
        damage(path)
        before = path.read_bytes()
        sentence = refusal(tmp_path / "again", daemon.log_dir, *overrides(SECURED))
        assert FILE_NAME in sentence
        assert path.read_bytes() == before


def test_without_the_file_of_the_acls_that_were_there_the_daemon_does_not_start(tmp_path: Path) -> None:
    """F13: fail closed. Without an authorizer it does."""
    with MusterDaemon(tmp_path, SECURED) as daemon:
        with WireClient(daemon.bootstrap) as client:
            assert create(client, "orders") == [0]
        daemon.terminate()
        (daemon.log_dir / FILE_NAME).unlink()
        sentence = refusal(tmp_path / "again", daemon.log_dir, *overrides(SECURED))
        assert FILE_NAME in sentence
        assert "it is gone" in sentence
    without = {
        name: text for name, text in SECURED.items() if name not in ("authorizer.class.name", "super.users")
    }
    with MusterDaemon(tmp_path, without) as daemon:
        assert daemon.terminate() == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("authorizer.class.name", f"{STANDARD_AUTHORIZER}2"),
        ("super.users", "User:admin;bob"),
        ("super.users", "admin"),
        ("allow.everyone.if.no.acl.found", "yes"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, name: str, value: str) -> None:
    daemon = MusterDaemon(tmp_path, {**SECURED, name: value})
    ended = subprocess.run(
        daemon._command(),
        env={**os.environ, **daemon._environment()},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert name in ended.stderr
    assert "Traceback" not in ended.stderr
