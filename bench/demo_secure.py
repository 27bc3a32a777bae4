"""`make demo-secure`: the walk of docs/security.md, from nothing to SASL_SSL with SCRAM and ACLs.

    python -m bench.demo_secure

Files and the key's command are those of the page, in a temporary folder and on a free port. ACLs are made by an
admin client, as kafka-acls makes them. The exit status is 0 only if all that is allowed succeeds, and all else is
refused as it has to be.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from harness.processes import free_port, wait_until
from muster.client_properties import client_settings, read_client_settings

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "security.md"
FILES: Final = re.compile(r"```properties\n# (\S+)\n(.*?)```", re.DOTALL)
KEY: Final = re.compile(r"^    (openssl req .*?)\n    (cat server\.key.*?)$", re.DOTALL | re.MULTILINE)
PORT: Final = "9094"
PASSWORDS: Final = {"admin": "admin-secret", "alice": "alice-secret"}
ROWS: Final = 10
TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 10.0
"""How long a busy machine may take for an answer that is asked for once."""
CANNOT_CONNECT: Final = re.compile("Connect to .* failed")
"""What librdkafka says where nothing listens; its code is that of a connection which is closed."""
RIGHTS: Final = {
    (ResourceType.TOPIC, "orders"): (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE),
    (ResourceType.GROUP, "billing"): (AclOperation.READ,),
}


class DemoError(Exception):
    """Something is not as it has to be; the message says what."""


class SecuredFolder:
    """The folder of the walk, which is the one that this runs in: its files, and the programs that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = str(free_port())
        for name, text in FILES.findall(PAGE.read_text()):
            (folder / name).write_text(text.replace(PORT, port))
        self.port = port
        self.address = f"localhost:{port}"

    def make_key(self) -> None:
        """Run the page's commands for the key and its certificate."""
        found = KEY.search(PAGE.read_text())
        assert found is not None, "the page has the command"
        for command in found.groups():
            subprocess.run(command, shell=True, check=True, capture_output=True)

    def muster(self, *arguments: str, typed: str = "") -> str:
        """Run a command of the command line, which succeeds, and return what it prints."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            input=typed,
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise DemoError(f"muster {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    @staticmethod
    def command(*arguments: str) -> list[str]:
        """The arguments of a process that runs a command."""
        return [sys.executable, "-m", "muster", *arguments]

    @staticmethod
    def client(user: str) -> dict[str, Any]:
        """librdkafka's settings of a client with the file of this user."""
        given = read_client_settings(Path(f"{user}.properties"))
        return {"bootstrap.servers": given.bootstrap, "log_level": 0, **given.for_librdkafka()}


def refused(what: str, error_codes: set[int], ask: Callable[[], Any]) -> None:
    """Raise DemoError unless `ask` fails with one of these errors."""
    try:
        ask()
    except KafkaException as error:
        if error.args[0].code() in error_codes:
            print(f"   refused, as it has to be: {what}: {error.args[0].name()}")
            return
        raise DemoError(f"{what}: refused with {error.args[0].name()}") from None
    raise DemoError(f"{what}: it was not refused")


def not_let_in(what: str, error_codes: set[int], settings: dict[str, Any], admin: AdminClient) -> None:
    """Raise DemoError unless a client with these settings is refused with one of these errors.

    No answer is no refusal: right before and after it the daemon has to answer `admin`.
    """
    if not _answers(admin, ANSWER_TIMEOUT_S):
        raise DemoError(f"{what}: the daemon does not answer its administrator before it")
    seen: list[KafkaError] = []
    heard: dict[str, Any] = {**settings, "error_cb": seen.append}
    stranger = AdminClient(heard)
    deadline_s = time.monotonic() + TIMEOUT_S
    behind_others = {KafkaError._ALL_BROKERS_DOWN} - error_codes
    while not (reasons := [each for each in seen if each.code() not in behind_others]):
        if time.monotonic() > deadline_s:
            raise DemoError(f"{what}: it was not refused within {TIMEOUT_S} s")
        with suppress(KafkaException):  # It does not say why; `error_cb` does.
            stranger.list_topics(timeout=1)
            raise DemoError(f"{what}: it was not refused")
        stranger.poll(0)
    if any(CANNOT_CONNECT.search(each.str()) for each in reasons):
        raise DemoError(f"{what}: nothing listens: {reasons[0].str()}")
    if reasons[0].code() not in error_codes:
        raise DemoError(f"{what}: refused with {reasons[0].name()}: {reasons[0].str()}")
    if not _answers(admin, ANSWER_TIMEOUT_S):
        raise DemoError(f"{what}: the daemon does not answer its administrator after it")
    print(f"   refused, as it has to be: {what}: {reasons[0].name()}")


def written(client: dict[str, Any], topic: str) -> None:
    """Write ROWS records. Raises KafkaException for the first that is refused."""
    errors: list[KafkaError] = []
    producer = Producer({**client, "message.timeout.ms": 10_000})
    for number in range(ROWS):
        producer.produce(
            topic, f"row-{number}", on_delivery=lambda error, _: errors.append(error) if error else None
        )
    if producer.flush(TIMEOUT_S) or errors:
        raise KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))


def read(client: dict[str, Any], topic: str, group: str) -> int:
    """Read ROWS records in a group, and commit them. Raises KafkaException for what is refused."""
    consumer = Consumer({**client, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        seen = 0
        while seen < ROWS:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise DemoError(f"{topic}: nothing came within {TIMEOUT_S} s")
            if message.error():
                raise KafkaException(message.error())
            seen += 1
        consumer.commit(asynchronous=False)
        return seen
    finally:
        consumer.close()


def give_rights(admin: AdminClient) -> None:
    """What kafka-acls does for a producer and a consumer."""
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW
        )
        for (kind, name), operations in RIGHTS.items()
        for operation in operations
    ]
    for made in admin.create_acls(bindings, request_timeout=TIMEOUT_S).values():
        made.result()


def walk(secured: SecuredFolder, has_ended: Callable[[], str | None]) -> None:
    """Everything that needs the daemon. Raises DemoError and KafkaException."""
    alice = secured.client("alice")
    admin = AdminClient(secured.client("admin"))
    wait_until(lambda: _answers(admin), "the daemon answers its administrator", TIMEOUT_S, has_ended)
    print("3. The daemon runs on SASL_SSL; the administrator makes two topics.")
    for made in admin.create_topics([NewTopic("orders", 1), NewTopic("wages", 1)]).values():
        made.result()
    refused(
        "writing, before alice has any right",
        {KafkaError.TOPIC_AUTHORIZATION_FAILED},
        lambda: written(alice, "orders"),
    )
    give_rights(admin)
    print("4. alice may write and read `orders` now, in the group `billing`.")
    written(alice, "orders")
    print(f"   {read(alice, 'orders', 'billing')} records were written and read")
    no_topic, no_group = {KafkaError.TOPIC_AUTHORIZATION_FAILED}, {KafkaError.GROUP_AUTHORIZATION_FAILED}
    refused("another topic", no_topic, lambda: written(alice, "wages"))
    refused("a topic that is not there", no_topic, lambda: written(alice, "no-such-topic"))
    refused("another group", no_group, lambda: read(alice, "orders", "payroll"))
    print("5. `muster groups` logs in with the same file.")
    print(secured.muster("groups", "describe", "billing", "--command-config", "alice.properties"))
    nobody = client_settings(
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512"}
        | {"sasl.username": "alice", "sasl.password": "guessed"}
    ).for_librdkafka()
    trusting = {
        "ssl.ca.location": alice["ssl.ca.location"],
        "bootstrap.servers": secured.address,
        "log_level": 0,
    }
    not_let_in("a wrong password", {KafkaError._AUTHENTICATION}, {**nobody, **trusting}, admin)
    in_the_open = {"bootstrap.servers": secured.address, "log_level": 0}
    closed = {KafkaError._TRANSPORT, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN}
    not_let_in("plain text", closed, in_the_open, admin)


def _answers(admin: AdminClient, timeout_s: float = 2.0) -> bool:
    try:
        admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def main() -> int:
    """Walk through the page, and return the exit status."""
    os.environ["PYTHONPATH"] = str(ROOT)  # Commands run in another folder.
    with tempfile.TemporaryDirectory(prefix="muster-secure-") as folder, chdir(folder):
        secured = SecuredFolder(Path(folder))
        print("1. A key, and its certificate.")
        secured.make_key()
        print("2. The first users, while no daemon runs.")
        for user, password in PASSWORDS.items():
            secured.muster("scram", "add", "data", user, typed=f"{password}\n")
        with open(secured.folder / "daemon.log", "wb") as log:
            serve = secured.command("serve", "--config", "server.properties")
            daemon = subprocess.Popen(serve, stdout=log, stderr=log)
        try:
            walk(secured, lambda: None if daemon.poll() is None else "it has ended")
        except (DemoError, KafkaException, RuntimeError, TimeoutError) as error:
            print(f"{error}\n{(secured.folder / 'daemon.log').read_text()[-3000:]}", file=sys.stderr)
            return 1
        finally:
            daemon.terminate()
            daemon.wait()
    print("All of it is as it has to be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
